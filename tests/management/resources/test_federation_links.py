"""The links that policies ask for, shown though none runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from amqproxy.management.broker_source import BrokerSource
from amqproxy.management.resources.federation_links import ERROR, links
from tests.management.administrator_call import call
from tests.management.fake_broker import FakeBroker, objects

DEADLINE = 30.0

UPSTREAMS = [
    {"vhost": "/", "component": "federation-upstream", "name": name, "value": {"uri": f"amqp://u:secret@{name}:1/v"}}
    for name in ("a", "b")
]
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
    answers = {
        "parameters": objects(*UPSTREAMS, SET),
        "policies": objects({"vhost": "/", "name": "p", "definition": dict(definition)}),
        "exchanges": objects({"vhost": "/", "name": "", "policy": "p"}),
        "queues": objects(
            {"vhost": "/", "name": "q", "type": "classic", "policy": "p"},
            {"vhost": "/", "name": "other", "type": "classic", "policy": None},
            {"vhost": "/", "name": "log", "type": "stream", "policy": "p"},
        ),
    }
    fake = FakeBroker(tmp_path / "control.sock", answers)

    async def asked() -> list[dict[str, Any]]:
        async with fake.serving(), asyncio.timeout(DEADLINE):
            return [each async for each in (await links(call(BrokerSource(fake.path)))).rows]

    found = asyncio.run(asked())
    assert [each["upstream"] for each in found] == upstreams
    assert all((each["queue"], each["status"], each["error"]) == ("q", "error", ERROR) for each in found)
    assert [each["uri"] for each in found] == [f"amqp://{name}:1/v" for name in upstreams]
