"""Parameters become commands, and reports become states; those about earlier shovels are ignored."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.broker.broker import Broker
from amqproxy.shovels import shovel_states
from amqproxy.shovels.shovel_messages import CountsReport, ShovelCounts, ShovelState, StartShovel, StopShovel
from amqproxy.shovels.shovel_states import RESTARTED, ShovelStates

VALUE = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://u:secret@h", "dest-queue": "b"}


class Shovels(ShovelStates):
    """States whose commands are listed."""

    def __init__(self, **options: Any) -> None:
        self.broker = options.pop("broker", Broker())
        super().__init__(self.broker, now=lambda: 5.0, **options)

    def set(self, name: str = "s", **changed: Any) -> None:
        value = VALUE | {name.replace("_", "-"): each for name, each in changed.items()}
        self.broker.set_parameter("/", "shovel", name, value)

    def told(self) -> list[Any]:
        return [
            (each.number, each.shovel.name, each.pause) if isinstance(each, StartShovel) else each.number
            for each in self.commands()
        ]

    def state(self, name: str = "s") -> tuple[str, str, str]:
        [entry] = self.entries("/", name)
        return entry["state"], entry["reason"], entry["cause"]


def test_a_parameter_starts_a_shovel_and_its_end_stops_it() -> None:
    shovels, woken = Shovels(), []
    shovels.wake = lambda: woken.append(1)
    shovels.set()
    assert shovels.told() == [(1, "s", 0.0)]
    assert shovels.state() == ("starting", "", "")
    shovels.set(dest_queue="c")
    assert shovels.told() == [1, (2, "s", 0.0)]
    shovels.broker.clear_parameter("/", "shovel", "s")
    assert shovels.told() == [2]
    assert (len(shovels), shovels.running, shovels.told()) == (0, 0, [])
    assert woken


def test_parameters_that_are_there_before() -> None:
    broker = Broker()
    broker.set_parameter("/", "shovel", "s", VALUE)
    broker.set_parameter("/", "other", "o", VALUE)
    assert Shovels(broker=broker).told() == [(1, "s", 0.0)]


def test_a_deleted_virtual_host_stops_its_shovels() -> None:
    shovels = Shovels()
    shovels.broker.add_vhost("v")
    shovels.broker.set_parameter("v", "shovel", "s", VALUE)
    assert shovels.told() == [(1, "s", 0.0)]
    shovels.broker.delete_vhost("v", 0.0)
    while len(shovels):
        shovels.broker.work.go_on(0.0)
    assert shovels.told() == [1]


def test_states() -> None:
    shovels = Shovels()
    shovels.set()
    shovels.told()
    shovels.note(ShovelState(1, "running", source_uri="amqp://", destination_uri="amqp://h"))
    [entry] = shovels.entries(None, None)
    assert (entry["state"], entry["source_uri"], entry["destination_uri"]) == ("running", "amqp://", "amqp://h")
    assert (entry["since"], shovels.count("running")) == (5.0, 1)
    shovels.note(ShovelState(1, "terminated", "needed a restart", "it broke"))
    shovels.note(ShovelState(1, "starting"))
    assert shovels.state() == ("terminated", "needed a restart", "it broke")  # until it runs again
    shovels.note(ShovelState(1, "running"))
    assert shovels.state() == ("running", "", "")
    shovels.note(ShovelState(7, "terminated", "of another one"))
    assert shovels.state() == ("running", "", "")


def test_counts() -> None:
    shovels, moved = Shovels(), []
    shovels.note_moved = moved.append
    shovels.set()
    shovels.told()
    shovels.note(CountsReport([ShovelCounts(1, 9, 7, 0, 3, 1, True), ShovelCounts(5, 1, 1, 0, None, None, False)]))
    [entry] = shovels.entries(None, "s")
    assert (entry["forwarded"], entry["remaining"], entry["unpublished"], entry["blocked"]) == (9, 3, 1, True)
    shovels.note(CountsReport([ShovelCounts(1, 12, 10, 0, 0, 0, False)]))
    assert moved == [7, 3]


def test_a_shovel_that_is_over_deletes_its_parameter() -> None:
    shovels = Shovels()
    shovels.set()
    shovels.told()
    shovels.note(ShovelState(1, "is-over"))
    assert (shovels.broker.parameters, len(shovels), shovels.told()) == ([], 0, [1])


def test_what_is_not_valid_does_not_run() -> None:
    shovels = Shovels()
    shovels.set(src_protocol="amqp10")
    assert shovels.told() == []
    state, reason, cause = shovels.state()
    assert (state, reason) == ("terminated", "the parameter is not valid")
    assert cause.startswith("src-protocol: amqproxy shovels by AMQP 0-9-1 only")


def test_without_the_plugin_none_runs() -> None:
    shovels = Shovels(is_enabled=False)
    shovels.set()
    assert shovels.told() == []
    assert shovels.state() == ("terminated", "the shovel does not run", shovel_states.NOT_ENABLED)


def test_a_restart_starts_a_new_one() -> None:
    shovels = Shovels()
    shovels.set()
    shovels.told()
    shovels.note(ShovelState(1, "terminated", "needed a restart", "it broke"))
    shovels.broker.events.report(RESTARTED, "/", "s")
    shovels.broker.events.report(RESTARTED, "/", "other")
    assert shovels.told() == [1, (2, "s", 0.0)]


def test_after_the_end_of_the_process_those_that_reconnect_do_so() -> None:
    shovels = Shovels()
    shovels.set("slow", reconnect_delay=7)
    shovels.set("once", reconnect_delay=0)
    assert shovels.told() == [(1, "slow", 0.0), (2, "once", 0.0)]
    shovels.note_process_end()
    assert shovels.state("slow") == ("terminated", "needed a restart", "the shovel process has ended")
    assert shovels.told() == [(3, "slow", 7.0)]
    shovels.note(ShovelState(1, "running"))
    assert shovels.state("slow")[0] == "terminated"
    shovels.broker.events.report(RESTARTED, "/", "once")
    assert shovels.told() == [(4, "once", 0.0)]


def test_more_than_the_most_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shovel_states, "MOST_SHOVELS", 2)
    shovels = Shovels()
    for name in ("a", "b", "c", "d"):
        shovels.set(name)
    assert [each[1] for each in shovels.told()] == ["a", "b"]
    assert shovels.state("c") == ("terminated", "the shovel does not run", "2 shovels run, which is the most")
    shovels.broker.clear_parameter("/", "shovel", "d")
    shovels.broker.clear_parameter("/", "shovel", "a")
    assert shovels.told() == [1, (3, "c", 0.0)]


def test_those_that_wait_start_when_one_has_ended_for_good_and_after_the_end_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shovel_states, "MOST_SHOVELS", 2)
    shovels, woken = Shovels(), []
    for name in ("once", "too", "b", "c"):
        shovels.set(name, reconnect_delay=0)
    assert [each[1] for each in shovels.told()] == ["once", "too"]
    shovels.wake = lambda: woken.append(1)
    shovels.note(ShovelState(1, "terminated", "needed a restart", "it broke"))
    assert woken
    assert shovels.told() == [(3, "b", 0.0)]
    shovels.note_process_end()
    assert shovels.told() == [(4, "c", 0.0)]


def test_no_secret_is_shown() -> None:
    shovels = Shovels()
    shovels.set(src_uri="nope://u:secret@h")
    shown = {name: each for entry in shovels.entries(None, None) for name, each in entry.items() if name != "value"}
    assert "secret" not in str(shown)


def test_commands_are_of_two_kinds() -> None:
    shovels = Shovels()
    shovels.set()
    [start] = shovels.commands()
    assert isinstance(start, StartShovel)
    shovels.broker.clear_parameter("/", "shovel", "s")
    assert list(shovels.commands()) == [StopShovel(1)]
