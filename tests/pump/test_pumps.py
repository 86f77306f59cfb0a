"""Several pumps: how connections are spread, what they count together, and how they begin and end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from amqproxy.amqp091.transitions import CLIENT
from amqproxy.pump import pumps as pumps_module
from amqproxy.pump.pump import Pump
from amqproxy.pump.pumps import Pumps, are_available
from amqproxy.pump.return_reasons import FORCED, RECALLED
from amqproxy.taps.metrics import Metrics
from tests.pump.rig import DEADLINE, PUBLISH, Wire, new_pumps, run_of_publishes
from tests.transcripts.words import octets, words

pytestmark = pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled")


async def until(condition: Callable[[], object]) -> None:
    with trio.fail_after(DEADLINE):
        while not condition():  # noqa: ASYNC110 - a thread changes it, which sets no event
            await trio.sleep(0.001)


def take(pumps: Pumps) -> Wire:
    """A connection with the pump that `pumps` choose."""
    wire = Wire(pumps._pumps[0])
    lease = wire.hand_over_to(pumps)
    assert lease.is_pumped
    return wire


async def test_connections_are_spread_and_come_back() -> None:
    metrics = Metrics()
    pumps = new_pumps(2, metrics)
    with pumps.started():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pumps.run)
            wires = [take(pumps) for _ in range(4)]
            assert [pump.connections for pump in pumps._pumps] == [2, 2]
            for wire in wires:
                wire.client.send(octets(f"{PUBLISH}, 1: queue.declare"))
            await until(lambda: all(wire.returned for wire in wires))
            assert pumps.connections == 0
            nursery.cancel_scope.cancel()
    for wire in wires:
        wire.look()
        assert words(bytes(wire.seen[1])) == PUBLISH
        wire.close()
    value = metrics.registry.get_sample_value("amqproxy_relay_seconds_count")
    assert value == 4
    labels = {"sender": str(CLIENT), "type": "method", "method": "basic.publish"}
    assert metrics.registry.get_sample_value("amqproxy_frames_total", labels) == 4


async def test_from_their_end_on_all_come_back_and_no_more_are_taken() -> None:
    pumps = new_pumps(2)
    with pumps.started():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pumps.run)
            wires = [take(pumps) for _ in range(6)]
            assert pumps.takes_more
            pumps.end()
            assert not pumps.takes_more
            await until(lambda: not pumps.connections)
            assert [wire.returned for wire in wires] == [1] * len(wires)
            nursery.cancel_scope.cancel()
    for wire in wires:
        wire.close()


async def test_a_scrape_counts_what_passed_just_now() -> None:
    metrics = Metrics()
    pumps = new_pumps(1, metrics)
    labels = {"sender": str(CLIENT), "type": "method", "method": "basic.publish"}
    with pumps.started():
        wire = take(pumps)
        wire.client.send(octets(PUBLISH))
        await until(lambda: metrics.registry.get_sample_value("amqproxy_frames_total", labels) == 1)
    assert wire.returned == 1, "none is left with a pump that ends"
    wire.close()


async def test_a_pump_without_a_thread_is_turned_by_the_event_loop() -> None:
    pumps = new_pumps(0, most_frames=3)
    with pumps.started():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pumps.run)
            wire = take(pumps)
            wire.client.send(octets(f"{PUBLISH}, {PUBLISH}"))
            await until(lambda: wire.returned)
            assert wire.lease is not None
            assert wire.lease.reason == FORCED
            assert words(wire.lease.rest(0)) == PUBLISH
            nursery.cancel_scope.cancel()
    wire.close()


async def test_the_journal_is_read_now_and_then() -> None:
    noted: list[bytes] = []
    pumps = new_pumps(1)
    with pumps.started():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pumps.run)
            wire = Wire(pumps._pumps[0], note=lambda is_server, data, now, is_cut: noted.append(bytes(data)))
            wire.hand_over_to(pumps)
            wire.client.send(octets(PUBLISH))
            await until(lambda: noted)
            assert noted == [run_of_publishes(1, 5)]
            nursery.cancel_scope.cancel()
    wire.close()


async def test_what_pumps_have_and_give_back_is_counted() -> None:
    metrics = Metrics()
    pumps = new_pumps(1, metrics)
    value = metrics.registry.get_sample_value
    with pumps.started():
        wire = take(pumps)
        assert value("amqproxy_connections_pumped") == 1
        assert value("amqproxy_pump_threads") == 1
        assert wire.lease is not None
        wire.pump.recall(wire.lease)
        pumps.note_return(wire.lease)
    assert value("amqproxy_connections_pumped") == 0
    assert value("amqproxy_pump_returns_total", {"reason": "recall"}) == 1
    wire.close()


async def test_what_is_idle_is_offered_until_it_need_not_be(autojump_clock: MockClock) -> None:
    pumps = new_pumps(0)
    called: list[tuple[str, float]] = []

    def offering(name: str, *again: float) -> Callable[[], float | None]:
        left = list(again)

        def offer() -> float | None:
            called.append((name, trio.current_time()))
            return left.pop(0) if left else None

        return offer

    with pumps.started():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pumps.run)
            pumps.watch(offering("late"), 8)
            await trio.sleep(1)
            pumps.watch(offering("soon", 1, 2), 1)
            await trio.sleep(20)
            nursery.cancel_scope.cancel()
    assert called == [("soon", 2), ("soon", 3), ("soon", 5), ("late", 8)]


# --- what cannot be had, and what is lost


def missing(log: list[Any]) -> int:
    return sum(each["event"] == "a pump less" for each in log)


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), MemoryError()], ids=["descriptors", "memory"])
async def test_where_a_pump_cannot_be_made_there_are_fewer(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Pump] = []

    def make(*arguments: Any, **named: Any) -> Pump:
        if len(made) == 1:
            raise error
        made.append(Pump(*arguments, **named))
        return made[-1]

    monkeypatch.setattr(pumps_module, "Pump", make)
    with capture_logs() as log:
        pumps = new_pumps(3)
    assert (pumps.count, missing(log)) == (1, 2)
    with pumps.started():
        wire = take(pumps)
    wire.close()


LIMITED = """
import os, resource
from structlog.testing import capture_logs
from amqproxy.taps.metrics import Metrics
from tests.pump.rig import new_pumps
metrics = Metrics()
before = len(os.listdir("/proc/self/fd"))
resource.setrlimit(resource.RLIMIT_NOFILE, (before + 8, before + 8))
with capture_logs() as log:
    pumps = new_pumps(3, metrics)
    with pumps.started():
        print(pumps.count, [each["event"] for each in log], metrics.registry.get_sample_value("amqproxy_pump_threads"))
"""


def test_a_full_table_of_descriptors_costs_pumps_and_nothing_else() -> None:
    command = [sys.executable, "-c", LIMITED]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True)
    assert done.stdout == "1 ['a pump less', 'a pump less'] 1.0\n"


async def test_where_the_system_refuses_a_thread_there_is_no_pump() -> None:
    metrics = Metrics()
    pumps = new_pumps(2, metrics)
    before = threading.stack_size(1 << 46)  # more than there are addresses
    try:
        with capture_logs() as log, pumps.started():
            assert (pumps.count, missing(log)) == (0, 2)
            assert metrics.registry.get_sample_value("amqproxy_pump_threads") == 0
    finally:
        threading.stack_size(before)


async def test_what_a_pump_has_whose_thread_ends_is_given_back() -> None:
    metrics = Metrics()
    pumps = new_pumps(2, metrics)
    with capture_logs() as log, pumps.started():
        wires = [take(pumps) for _ in range(4)]
        lost = pumps._pumps[0]
        kept, others = [wires[1], wires[3]], [wires[0], wires[2]]
        wires[0].client.send(octets(f"{PUBLISH}, 1: basic.publish"))
        await until(lambda: wires[0].look() or words(bytes(wires[0].seen[1])))
        # Nothing can be waited for any more: its thread ends once what it waits for now comes.
        ends = os.pipe()
        os.dup2(ends[0], lost.descriptor)
        for each in ends:
            os.close(each)
        others[1].client.send(octets("heartbeat"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pumps.run)
            await until(lambda: all(wire.returned for wire in others))
            nursery.cancel_scope.cancel()
        assert pumps.count == 1
        assert not any(wire.returned for wire in kept)
        assert {wire.lease.reason for wire in others if wire.lease is not None} == {RECALLED}
        took = take(pumps)
        assert took.pump is pumps._pumps[0]
        assert metrics.registry.get_sample_value("amqproxy_pump_threads") == 1
    assert [(each["event"], each["connections"], each["left"]) for each in log] == [("pump ended", 2, 1)]
    labels = {"sender": str(CLIENT), "type": "method", "method": "basic.publish"}
    assert metrics.registry.get_sample_value("amqproxy_frames_total", labels) == 2
    for wire in (*wires, took):
        wire.close()


async def test_a_connection_is_recalled_from_a_pump_whose_thread_has_ended() -> None:
    pumps = new_pumps(1)
    with pumps.started():
        wire = take(pumps)
        pump = pumps._pumps[0]
        pump.stop()
        await until(lambda: pump.has_ended)
        assert wire.lease is not None
        pump.recall(wire.lease)
        assert wire.returned == 1
        assert wire.lease.reason == RECALLED
    wire.close()
