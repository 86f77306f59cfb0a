"""Definitions, which are made while they are sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any

import pytest

from amqproxy.control.proxy_requests import MAX_LISTS
from amqproxy.management import streamed_list
from amqproxy.management.resources.definitions import definitions, of_vhost
from amqproxy.management.streamed_list import CHUNK, LISTS_AT_ONCE, held
from tests.management.administrator_call import call
from tests.management.fake_broker import FakeBroker, objects

DEADLINE = 60.0

QUEUE = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "exclusive": False, "type": "classic"}

VHOST = {"name": "/", "limits": {}, "metadata": {"description": "", "tags": []}}

ANSWERS: dict[str, Any] = {
    "users": objects({"name": "x" * CHUNK}, {"name": "y"}),
    "vhosts": objects(VHOST),
    "permissions": objects(),
    "topic-permissions": objects(),
    "parameters": objects(),
    "global-parameters": objects({"name": "cluster_name", "value": "c"}),
    "policies": objects({"name": "p", "vhost": "/"}),
    "queues": objects({**QUEUE, "arguments": {}}, {**QUEUE, "exclusive": True}),
    "exchanges": objects({"name": "amq.direct"}),
    "bindings": objects(),
    "broker": {"version": "4.3.0", "node": "rabbit@node"},
}


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBroker]:
    monkeypatch.setattr(streamed_list, "lists", asyncio.Semaphore(LISTS_AT_ONCE))
    yield FakeBroker(tmp_path / "control.sock", ANSWERS)
    assert held.total == 0


def test_readers_that_read_nothing_hold_no_turn(broker: FakeBroker) -> None:
    async def asked() -> None:
        async with broker.serving() as source, asyncio.timeout(DEADLINE), AsyncExitStack() as readers:
            for _ in range(2 * MAX_LISTS):
                found = await definitions(call(source))
                await anext(await readers.enter_async_context(aclosing(found.chunks)))
            assert (await source.facts()).is_4
            found = await definitions(call(source))
            whole = json.loads(b"".join([each async for each in found.chunks]))
        assert [each["name"] for each in whole["users"]] == ["x" * CHUNK, "y"]
        assert whole["permissions"] == whole["exchanges"] == []
        assert [each["name"] for each in whole["queues"]] == ["q"]

    asyncio.run(asked())


def test_the_definitions_of_one_virtual_host_are_streamed(broker: FakeBroker) -> None:
    async def asked() -> Any:
        async with broker.serving() as source, asyncio.timeout(DEADLINE):
            found = await of_vhost(call(source, vhost="/"))
            return json.loads(b"".join([each async for each in found.chunks]))

    whole = asyncio.run(asked())
    assert whole["policies"] == [{"name": "p"}]
    assert [each["name"] for each in whole["queues"]] == ["q"]
    assert whole["original_vhost_name"] == "/"
    assert "users" not in whole
