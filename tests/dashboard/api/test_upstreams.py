"""Members of a proxy's upstreams, as the API has them: listed, and changed by those who may act."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amqproxy.dashboard.api.control import Actor
from amqproxy.dashboard.api.upstreams import (
    EjectBody,
    RateBody,
    RebalanceBody,
    WeightBody,
    drain_member,
    eject_member,
    list_members,
    list_pools,
    rebalance,
    restore_member,
    weigh_member,
)
from amqproxy.dashboard.source import ACTING
from tests.dashboard.conftest import Dashboard

pytestmark = pytest.mark.once

CHANGES = frozenset(f"upstreams-{name}" for name in ("drain", "eject", "restore", "weight", "rebalance"))
MEMBER = "/api/v1/sources/0/upstreams/blue/members/a%3A5672"


class Proxy:
    """A source that notes what it is asked."""

    name = "proxy"
    understood = CHANGES | {"upstreams", "pools"}

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.requests = self

    async def ask(self, request: str, **keys: Any) -> dict[str, Any]:
        self.asked.append({"request": request, **keys})
        return {"ok": True, "upstreams": [{"member": "a:5672"}]}


def test_members_are_listed_and_changed() -> None:
    proxy: Any = Proxy()
    actor = Actor("somebody")

    async def run() -> bytes:
        answer = await list_members(proxy)
        await drain_member(proxy, "blue", "a:5672", actor, RateBody(rate=5))
        await eject_member(proxy, "blue", "a:5672", actor, EjectBody(seconds=60))
        await restore_member(proxy, "blue", "a:5672", actor)
        await weigh_member(proxy, "blue", "a:5672", actor, WeightBody(weight=3))
        await rebalance(proxy, "blue", actor, RebalanceBody())
        return bytes(answer.body)

    assert asyncio.run(run()) == b'{"upstreams":[{"member":"a:5672"}]}'
    of_member = {"upstream": "blue", "member": "a:5672"}
    assert proxy.asked == [
        {"request": "upstreams"},
        {"request": "upstreams-drain", **of_member, "rate": 5},
        {"request": "upstreams-eject", **of_member, "seconds": 60},
        {"request": "upstreams-restore", **of_member},
        {"request": "upstreams-weight", **of_member, "weight": 3},
        {"request": "upstreams-rebalance", "upstream": "blue", "rate": 50},
    ]


def test_pools_are_listed() -> None:
    proxy: Any = Proxy()
    asyncio.run(list_pools(proxy))
    assert proxy.asked == [{"request": "pools"}]


def test_changes_are_those_of_an_operator() -> None:
    assert CHANGES <= ACTING


def test_a_capture_has_none(dashboard: Dashboard) -> None:
    client = dashboard("confirms")
    assert client.get("/api/v1/sources/0/upstreams").status_code == 404
    assert client.post(f"{MEMBER}/restore").status_code == 404
    assert client.post(f"{MEMBER}/weight", json={"weight": 1001}).status_code == 422


def test_a_read_only_dashboard_changes_nothing(dashboard: Dashboard) -> None:
    client = dashboard("confirms", read_only=True)
    assert client.post(f"{MEMBER}/drain", json={"rate": 1}).status_code == 403
