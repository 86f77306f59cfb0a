"""When the model is woken, and what is reported to it."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from amqproxy.amqp091.wire import Table
from amqproxy.broker.amqp091.connection import Amqp091Connection
from amqproxy.broker.broker import Broker
from amqproxy.broker.connections.client_connection import HANDSHAKE_TIME
from amqproxy.broker.message import Message
from amqproxy.broker.server import machine_resources
from amqproxy.broker.server.clock import current_time
from amqproxy.broker.server.send_scheduler import SendScheduler
from amqproxy.broker.server.timer_task import LEAST_SLEEP, MEASURING_INTERVAL, TimerTask
from amqproxy.broker.storage.page_file import PageFiles


class Ticked(Broker):
    """Remembers when."""

    def __init__(self, **options: int) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self.ticks: list[float] = []

    def tick(self, now: float) -> None:
        self.ticks.append(now)
        super().tick(now)


@asynccontextmanager
async def kept_in_time(broker: Broker, directory: Path | None = None) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(TimerTask(broker, SendScheduler(), directory).run)
        await trio.testing.wait_all_tasks_blocked()
        yield
        nursery.cancel_scope.cancel()


async def test_a_broker_that_has_nothing_to_do_sleeps(autojump_clock: trio.testing.MockClock) -> None:
    broker = Ticked()
    async with kept_in_time(broker):
        await trio.sleep(60.5)
    assert len(broker.ticks) == 61 / MEASURING_INTERVAL


async def test_it_wakes_when_something_is_due(autojump_clock: trio.testing.MockClock) -> None:
    broker = Ticked()
    async with kept_in_time(broker):
        await trio.sleep(0.1)
        now = current_time()
        connection = Amqp091Connection(broker, is_loopback=True, wake=lambda: None, now=now)
        for when in (now + 0.7, now + 0.3):  # it sleeps already, and has to get up sooner
            broker.timed_connections.set(connection, when)
        await trio.sleep(HANDSHAKE_TIME + 1)
        assert broker.ticks[1] == pytest.approx(now + 0.3, abs=LEAST_SLEEP)
        assert connection.is_over


async def test_what_is_due_at_once_does_not_keep_it_busy(autojump_clock: trio.testing.MockClock) -> None:
    broker = Ticked()
    async with kept_in_time(broker):
        connections = [Amqp091Connection(broker, is_loopback=True, wake=lambda: None) for _ in range(100)]
        for number, connection in enumerate(connections):
            broker.timed_connections.set(connection, current_time() + number * LEAST_SLEEP / 10)
        await trio.sleep(0.9)
    assert len(broker.ticks) < 20


async def test_memory_and_disk_are_looked_at(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broker = Broker(memory_limit=100, disk_free_limit=100)
    found = {"memory": 50, "disk": 500}
    monkeypatch.setattr(machine_resources, "memory_in_use", lambda: found["memory"])
    monkeypatch.setattr(machine_resources, "disk_free", lambda directory: found["disk"])
    async with kept_in_time(broker, tmp_path):
        for memory, disk, alarms in [(101, 500, {"memory"}), (50, 99, {"disk"}), (50, 100, set())]:
            found.update(memory=memory, disk=disk)
            await trio.sleep(1.1 * MEASURING_INTERVAL)
            assert broker.alarms == alarms


async def test_what_fails_does_not_end_it(autojump_clock: trio.testing.MockClock) -> None:
    class Failing(Ticked):
        def tick(self, now: float) -> None:
            super().tick(now)
            raise RuntimeError("on purpose")

    broker = Failing()
    with capture_logs() as log:
        async with kept_in_time(broker):
            await trio.sleep(2.5 * MEASURING_INTERVAL)
    assert len(broker.ticks) == 3
    assert [event["event"] for event in log if event["log_level"] == "error"] == 3 * ["what was due failed"]


async def test_what_memory_has_no_room_for_goes_to_a_temporary_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(machine_resources, "memory_in_use", lambda: 50_000_000)
    broker = Broker(memory_limit=60_000_000)
    queue = broker.vhosts["/"].declare_queue(
        "q", None, durable=False, exclusive=False, auto_delete=False, arguments=Table(), now=0.0
    )
    for _ in range(1000):
        queue.publish(Message("", "q", bytes(14), bytes(1000)), 0.0)
    async with kept_in_time(broker):
        await trio.sleep(2)
    assert queue.bytes_in_memory < 200_000
    assert isinstance(broker.paging.page_store, PageFiles)
    assert broker.paging.page_store.size > 900_000
    assert [entry.message.size for entry in iter(lambda: queue.get(0.0), None)] == [1000] * 1000


async def test_a_place_that_is_there_is_used(autojump_clock: trio.testing.MockClock, tmp_path: Path) -> None:
    broker = Broker()
    place = broker.paging.page_store = PageFiles(tmp_path)
    async with kept_in_time(broker):
        assert broker.paging.page_store is place


async def test_without_any_temporary_directory_messages_stay_in_memory(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    def refuse() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", refuse)
    broker = Broker()
    with capture_logs() as log:
        async with kept_in_time(broker):
            await trio.sleep(2)
    assert broker.paging.page_store is None
    assert [each["event"] for each in log] == ["messages stay in memory"]
    assert "TMPDIR" in log[0]["reason"]
