"""Switches: whom they are about, and which upstream serves."""

from __future__ import annotations

import pytest

from amqproxy.rules.context import Client
from amqproxy.rules.matching.filters import compiled
from amqproxy.switching.phase import Phase, SwitchEvent
from amqproxy.switching.switch import Switch

SWITCH = Switch(name="s", source="blue", target="green")


@pytest.mark.parametrize(
    ("phase", "serving", "left", "state"),
    [
        (Phase.AT_SOURCE, "blue", "green", "blue"),
        (Phase.CLIENTS_TO_TARGET, "green", "blue", "moving to green"),
        (Phase.MESSAGES_TO_TARGET, "green", "blue", "moving to green"),
        (Phase.AT_TARGET, "green", "blue", "green"),
        (Phase.CLIENTS_TO_SOURCE, "blue", "green", "moving to blue"),
        (Phase.MESSAGES_TO_SOURCE, "blue", "green", "moving to blue"),
    ],
)
def test_the_upstream_that_serves(phase: Phase, serving: str, left: str, state: str) -> None:
    switch = Switch(name="s", source="blue", target="green", phase=phase)
    assert (switch.serving, switch.left, switch.state) == (serving, left, state)


def test_an_event_without_effect_changes_nothing() -> None:
    assert SWITCH.after(SwitchEvent.EMPTIED) is SWITCH
    assert SWITCH.after(SwitchEvent.FORTH).phase is Phase.CLIENTS_TO_TARGET


@pytest.mark.parametrize(
    ("keys", "route", "client", "applies"),
    [
        ({}, "blue", {}, True),
        ({}, "red", {}, False),
        ({}, "green", {}, False),
        ({"vhost": "a"}, "blue", {"vhost": "a"}, True),
        ({"vhost": "a"}, "blue", {"vhost": ""}, False),
        ({"when": 'client.address.startsWith("10.")'}, "blue", {"address": "10.1.1.1"}, True),
        ({"when": 'client.address.startsWith("10.")'}, "blue", {"address": "9.1.1.1"}, False),
        ({"when": "client.properties.x == 1"}, "blue", {}, False),
    ],
)
def test_the_clients_that_it_is_about(keys: dict[str, str], route: str, client: dict[str, str], applies: bool) -> None:
    switch = Switch(name="s", source="blue", target="green", **keys)  # type: ignore[arg-type]
    assert switch.applies(route, Client(**client)) is applies  # type: ignore[arg-type]


def test_the_condition_of_held_publishes_can_be_compiled() -> None:
    switch = Switch(name="s", source="blue", target="green", vhost='a"b', when="client.port > 5")
    condition = switch.holding_condition(["[::1]:5672", "b:5672"])
    assert condition == 'upstream in ["[::1]:5672","b:5672"] && vhost == "a\\"b" && (client.port > 5)'
    assert compiled(condition).names == {"upstream", "vhost", "client.port"}
