"""Switches of a proxy, as the API has them: listed, and turned by those who may act."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amqproxy.dashboard.api.control import Actor
from amqproxy.dashboard.api.switches import change_switch, list_switch_queues, list_switches
from tests.dashboard.conftest import Dashboard

pytestmark = pytest.mark.once


class Proxy:
    """A source that notes what it is asked."""

    name = "proxy"
    understood = frozenset({"switches", "switches-queues", "switches-back"})

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.requests = self

    async def ask(self, request: str, **keys: Any) -> dict[str, Any]:
        self.asked.append({"request": request, **keys})
        return {"ok": True, "switches": [{"switch": "blue-green"}]}


def test_switches_are_asked_for_and_turned() -> None:
    proxy: Any = Proxy()

    async def run() -> bytes:
        answer = await list_switches(proxy)
        await list_switch_queues(proxy, "blue-green")
        await change_switch(proxy, "blue-green", "back", Actor("somebody"))
        return bytes(answer.body)

    assert asyncio.run(run()) == b'{"switches":[{"switch":"blue-green"}]}'
    assert proxy.asked == [
        {"request": "switches"},
        {"request": "switches-queues", "switch": "blue-green"},
        {"request": "switches-back", "switch": "blue-green"},
    ]


def test_a_capture_has_none(dashboard: Dashboard) -> None:
    client = dashboard("confirms")
    assert client.get("/api/v1/sources/0/switches").status_code == 404
    assert client.post("/api/v1/sources/0/switches/s/back").status_code == 404
    assert client.post("/api/v1/sources/0/switches/s/elsewhere").status_code == 422


def test_a_read_only_dashboard_turns_none(dashboard: Dashboard) -> None:
    client = dashboard("confirms", read_only=True)
    assert client.post("/api/v1/sources/0/switches/s/back").status_code == 403
