"""The links that policies ask for, shown though none runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from amqproxy.management.resources.federation_links import ERROR, links
from tests.management.administrator_call import call
from tests.management.fake_broker import FakeBroker, objects

DEADLINE = 30.0

UPSTREAMS = [
    {"vhost": "/", "component": "federation-upstream", "name": name, "value": {"uri": f"amqp://u:secret@{name}:1/v"}}
    for name in ("a", "b")
]

IMPORTED = [
    {"vhost": "/", "component": "federation-upstream", "name": "text", "value": "amqp://h"},
    {"vhost": "/", "component": "federation-upstream", "name": "broken", "value": {"uri": ["amqp://[x"]}},
    {"vhost": "/", "component": "federation-upstream-set", "name": "number", "value": 7},
]
"""Values that definitions bring, which nobody checks."""

SET = {"vhost": "/", "component": "federation-upstream-set", "name": "one", "value": [{"upstream": "b"}, {"no": 1}, 7]}


@pytest.mark.parametrize(
    ("definition", "upstreams"),
    [
        ({"federation-upstream-set": "all"}, ["a", "b"]),
        ({"federation-upstream-set": "one"}, ["b"]),
        ({"federation-upstream-set": "none"}, []),
        ({"federation-upstream": "a"}, ["a"]),
        ({"federation-upstream": "c"}, []),
        ({"federation-upstream-pattern": "^[ab]$"}, ["a", "b"]),
        ({"federation-upstream-pattern": "["}, []),
        ({"max-length": 3}, []),
    ],
)
def test_a_policy_chooses_upstreams(tmp_path: Path, definition: Mapping[str, Any], upstreams: list[str]) -> None:
    found = shown(tmp_path, definition, *UPSTREAMS, SET)
    assert [each["upstream"] for each in found] == upstreams
    assert all((each["queue"], each["status"], each["error"]) == ("q", "error", ERROR) for each in found)
    assert [each["uri"] for each in found] == [f"amqp://{name}:1/v" for name in upstreams]


@pytest.mark.parametrize(("name", "upstreams"), [("all", ["text", "broken"]), ("number", [])])
def test_imported_values_of_any_kind_are_shown_without_a_uri(tmp_path: Path, name: str, upstreams: list[str]) -> None:
    found = shown(tmp_path, {"federation-upstream-set": name}, *IMPORTED)
    assert [(each["upstream"], each["uri"]) for each in found] == [
        (each, "amqp://[x" if each == "broken" else "") for each in upstreams
    ]


def shown(directory: Path, definition: Mapping[str, Any], *parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The links of one virtual host with a policy and these parameters."""
    answers = {
        "parameters": objects(*parameters),
        "policies": objects({"vhost": "/", "name": "p", "definition": dict(definition)}),
        "exchanges": objects({"vhost": "/", "name": "", "policy": "p"}),
        "queues": objects(
            {"vhost": "/", "name": "q", "type": "classic", "policy": "p"},
            {"vhost": "/", "name": "other", "type": "classic", "policy": None},
            {"vhost": "/", "name": "log", "type": "stream", "policy": "p"},
        ),
    }
    fake = FakeBroker(directory / "control.sock", answers)

    async def asked() -> list[dict[str, Any]]:
        async with fake.serving() as source, asyncio.timeout(DEADLINE):
            return [each async for each in (await links(call(source))).rows]

    return asyncio.run(asked())
