"""Bounds of parameters over the API's application."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.management.call import MOST_OF_VALUE
from amqproxy.management.resources.parameters import MOST_OF_NAME
from tests.management.local_api import LocalApi

MOST_OF_AN_ANSWER = 16 * MOST_OF_VALUE


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> LocalApi:
    return LocalApi(monkeypatch)


@pytest.mark.parametrize(
    ("component", "value"),
    [
        ("federation-upstream-set", [0] * 100_000),
        ("federation-upstream-set", [0] * 50_000),
        ("federation-upstream-set", [[""] * 40_000]),
        ("federation-upstream", {"x" * 100_000: 1}),
        ("shovel", {f"k{number}": 1 for number in range(10_000)}),
        ("vhost-limits", {f"k{number}": 1 for number in range(10_000)}),
    ],
)
def test_an_invalid_value_is_refused_in_few_words(api: LocalApi, component: str, value: Any) -> None:
    name = "limits" if component == "vhost-limits" else "n" * MOST_OF_NAME
    refused = api.ask("PUT", f"parameters/{component}/%2F/{name}", {"value": value})
    assert refused.status == 400
    assert len(refused.body) < MOST_OF_AN_ANSWER


@pytest.mark.parametrize("path", ["parameters/federation-upstream/%2F/", "global-parameters/"])
def test_names_and_values_are_bounded(api: LocalApi, path: str) -> None:
    good = {"value": {"uri": "amqp://h"}}
    assert api.ask("PUT", path + "n" * MOST_OF_NAME, good).status == 201
    assert api.ask("PUT", path + "n" * (MOST_OF_NAME + 1), good).status == 400
    assert api.ask("PUT", f"{path}n", {"value": {"uri": "amqp://" + "h" * MOST_OF_VALUE}}).status == 400


def test_a_value_of_many_levels_is_refused(api: LocalApi) -> None:
    body = b'{"value": ' + b"[" * 900 + b"]" * 900 + b"}"
    assert api.ask("PUT", "parameters/federation-upstream-set/%2F/n", body).status == 400
