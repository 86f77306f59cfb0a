"""Bodies without end, and more requests than an address may have."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from amqproxy.dashboard import request_limits
from amqproxy.dashboard.request_limits import AT_ONCE, MAX_WAITING, OPEN_BODY, RequestLimits
from tests.dashboard.conftest import Dashboard

pytestmark = pytest.mark.once

SESSION = "/api/v1/session"


@pytest.fixture
def client(dashboard: Dashboard) -> TestClient:
    return dashboard("confirms", token="t0ken")


def test_a_body_has_a_bound_before_and_while_it_comes(client: TestClient) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(1000):
            yield b"a" * 65_536

    announced = client.post(SESSION, content=b"a" * (OPEN_BODY + 1))
    streamed = client.post(SESSION, content=pieces())
    for answer in (announced, streamed):
        assert answer.status_code == 413
        assert "65536 bytes at most" in answer.json()["detail"]
    assert client.post(SESSION, json={"token": "t0ken"}).status_code == 200


def test_a_deep_body_is_refused(client: TestClient) -> None:
    answer = client.post(SESSION, content=b"[" * 60_000, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)


def test_a_body_has_to_come_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_limits, "BODY_SECONDS", 0.01)

    async def never() -> Any:
        await asyncio.Event().wait()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()

    with pytest.raises(Exception, match="the body took more than"):
        asyncio.run(RequestLimits(app)(scope_of("10.0.0.1"), never, None))  # type: ignore[arg-type]


def scope_of(address: str) -> dict[str, Any]:
    return {"type": "http", "path": "/", "headers": [], "client": (address, 1)}


def test_one_address_leaves_others_their_turn() -> None:
    async def play() -> None:
        running: list[str] = []
        is_over, other_runs, is_refused = asyncio.Event(), asyncio.Event(), asyncio.Event()
        statuses: list[int] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            running.append(scope["client"][0])
            if running[-1] == "10.0.0.2":
                other_runs.set()
            await is_over.wait()

        async def send(message: Any) -> None:
            if "status" in message:
                statuses.append(message["status"])
                is_refused.set()

        async def receive() -> Any:
            return {"type": "http.request"}

        limits = RequestLimits(app)
        many = AT_ONCE + MAX_WAITING + 1
        tasks = [asyncio.create_task(limits(scope_of("10.0.0.1"), receive, send)) for _ in range(many)]
        tasks.append(asyncio.create_task(limits(scope_of("10.0.0.2"), receive, send)))
        async with asyncio.timeout(60):
            await other_runs.wait()
            await is_refused.wait()
        assert running.count("10.0.0.1") == AT_ONCE
        assert statuses == [429]
        is_over.set()
        await asyncio.gather(*tasks)
        assert len(running) == many
        assert not limits._addresses

    asyncio.run(play())
