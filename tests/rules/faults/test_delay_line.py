"""The delay line, with the time passed in: tables of what is put in when, and of what comes out when."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.transitions import CLIENT
from amqproxy.rules.faults.delay_line import STEP, DelayLine, DirectionEnd, SendNow, WaitUntil
from amqproxy.rules.faults.impairments import Bandwidth, Cutoff, HalfClose, Latency, Reset, Silence, Slicing, SlowClose
from amqproxy.rules.verdict import Impairment

Out = tuple[float, bytes | DirectionEnd]


def played(line: DelayLine, puts: list[tuple[float, bytes]], until: float = 100.0) -> list[Out]:
    """What comes out, and when, if it is called at the times that it returns."""
    now, out = 0.0, []
    puts = sorted(puts, key=lambda put: put[0])
    while now <= until:
        while puts and puts[0][0] <= now:
            line.put(puts.pop(0)[1], now)
        moved = line.move(now)
        if isinstance(moved, WaitUntil):
            assert moved.until > now
            now = min([moved.until, *[at for at, _ in puts]])
        else:
            out.append((round(now, 6), bytes(moved.data) if isinstance(moved, SendNow) else moved))
    return out


def line_with(*impairments: Impairment, chance: float = 0.5) -> DelayLine:
    line = DelayLine(lambda: chance)
    for impairment in impairments:
        line.impair(impairment, 0.0)
    return line


CASES: list[tuple[str, list[Impairment], list[tuple[float, bytes]], list[Out]]] = [
    ("nothing is done", [], [(1, b"ab"), (1, b"c")], [(1, b"ab"), (1, b"c")]),
    ("latency", [Latency(CLIENT, delay=2)], [(0, b"a"), (1, b"b")], [(2, b"a"), (3, b"b")]),
    (
        "latency that is over: what is on its way stays ahead of what comes later",
        [Latency(CLIENT, 1.5, delay=2)],
        [(0, b"a"), (1, b"b"), (1.7, b"c"), (4, b"d")],
        [(2, b"a"), (3, b"b"), (3, b"c"), (4, b"d")],
    ),
    ("two latencies", [Latency(CLIENT, delay=2), Latency(CLIENT, delay=1)], [(0, b"a")], [(3, b"a")]),
    (
        "bandwidth",
        [Bandwidth(CLIENT, rate=40)],
        [(0, b"abcde")],
        [(0, b"ab"), (0.05, b"cd"), (0.1, b"e")],
    ),
    ("very little bandwidth", [Bandwidth(CLIENT, rate=0.5)], [(0, b"ab")], [(0, b"a"), (2, b"b")]),
    ("slices", [Slicing(CLIENT, size=2)], [(0, b"abcde")], [(0, b"ab"), (0, b"cd"), (0, b"e")]),
    (
        "slices with pauses",
        [Slicing(CLIENT, size=2, pause=1)],
        [(0, b"abc"), (0, b"d")],
        [(0, b"ab"), (1, b"c"), (2, b"d")],
    ),
    (
        "silence for a while",
        [Silence(CLIENT, 3)],
        [(1, b"a"), (2, b"b"), (4, b"c")],
        [(3, b"a"), (3, b"b"), (4, b"c")],
    ),
    ("silence, and then the end", [Silence(CLIENT, close_after=3)], [(1, b"a")], [(3, DirectionEnd.CLOSE)]),
    ("silence, over before the end", [Silence(CLIENT, 2, close_after=3)], [(1, b"a")], [(2, b"a")]),
    ("reset", [Reset(CLIENT, after=2)], [(1, b"a"), (3, b"b")], [(1, b"a"), (2, DirectionEnd.RESET)]),
    ("reset at once", [Reset(CLIENT)], [(1, b"a")], [(0, DirectionEnd.RESET)]),
    ("reset with its time", [Reset(CLIENT, 2, after=2)], [(1, b"a")], [(1, b"a"), (2, DirectionEnd.RESET)]),
    ("half-close", [HalfClose(CLIENT, after=2)], [(1, b"a"), (3, b"b")], [(1, b"a"), (2, DirectionEnd.HALF_CLOSE)]),
    (
        "cutoff",
        [Cutoff(CLIENT, size=5)],
        [(1, b"abc"), (2, b"def"), (3, b"g")],
        [(1, b"abc"), (2, b"de"), (2, DirectionEnd.CLOSE)],
    ),
    ("cutoff at the first byte", [Cutoff(CLIENT)], [(1, b"abc")], [(0, DirectionEnd.CLOSE)]),
    ("cutoff that is over", [Cutoff(CLIENT, 2, size=5)], [(1, b"abc"), (2, b"def")], [(1, b"abc"), (2, b"def")]),
    ("a slow close does nothing to bytes", [SlowClose(CLIENT, delay=5)], [(1, b"a")], [(1, b"a")]),
    (
        "all at once",
        [Latency(CLIENT, delay=1), Slicing(CLIENT, size=1, pause=0.5), Bandwidth(CLIENT, rate=1)],
        [(0, b"abc")],
        [(1, b"a"), (2, b"b"), (3, b"c")],
    ),
]


@pytest.mark.parametrize(
    ("impairments", "puts", "out"), [case[1:] for case in CASES], ids=[case[0].replace(" ", "-") for case in CASES]
)
def test_what_comes_out(impairments: list[Impairment], puts: list[tuple[float, bytes]], out: list[Out]) -> None:
    assert played(line_with(*impairments), puts) == out


@pytest.mark.parametrize(("chance", "at"), [(0.0, 1), (0.5, 2), (0.75, 2.5)])
def test_jitter(chance: float, at: float) -> None:
    line = line_with(Latency(CLIENT, delay=2, jitter=1), chance=chance)
    assert played(line, [(0, b"a")]) == [(at, b"a")]


@pytest.mark.parametrize(("chance", "first"), [(0.0, b"a"), (0.5, b"ab"), (0.99, b"abc")])
def test_slices_vary(chance: float, first: bytes) -> None:
    line = line_with(Slicing(CLIENT, size=2, variation=1), chance=chance)
    assert played(line, [(0, b"abcdef")])[0] == (0, first)


def test_it_is_idle_when_nothing_is_done_and_nothing_in_it() -> None:
    line = DelayLine(lambda: 0.5)
    assert line.is_idle
    line.impair(Latency(CLIENT, 1, delay=3), 0)
    assert not line.is_idle
    line.put(b"abc", 0)
    assert line.held == 3
    assert line.move(2) == WaitUntil(3)
    assert not line.is_idle
    assert isinstance(line.move(3), SendNow)
    assert line.held == 0
    assert line.is_idle
    assert line.move(3) == WaitUntil(math.inf)


def test_the_end_is_returned_once() -> None:
    line = line_with(Reset(CLIENT))
    line.put(b"a", 0)
    assert line.move(0) is DirectionEnd.RESET
    line.put(b"b", 0)
    assert line.held == 0
    assert not line.is_idle
    assert line.move(1) == WaitUntil(math.inf)


def test_what_a_rule_does_can_be_lifted() -> None:
    line = line_with(
        Latency(CLIENT, delay=2, by="kept"), Silence(CLIENT, by="gone"), Bandwidth(CLIENT, rate=1, by="gone")
    )
    line.put(b"ab", 0)
    assert line.move(3) == WaitUntil(math.inf)
    line.lift({"kept"})
    assert played(line, [(5, b"c")]) == [(2, b"ab"), (7, b"c")]
    line.lift(())
    assert line.is_idle


def test_slow_closes_add_up() -> None:
    assert line_with(SlowClose(CLIENT, delay=2), SlowClose(CLIENT, delay=3)).linger == 5


IMPAIRMENTS = st.one_of(
    st.builds(Latency, st.just(CLIENT), st.none() | st.floats(0.1, 5), delay=st.floats(0, 3), jitter=st.floats(0, 3)),
    st.builds(Bandwidth, st.just(CLIENT), st.none() | st.floats(0.1, 5), rate=st.floats(5, 100)),
    st.builds(
        Slicing,
        st.just(CLIENT),
        st.none() | st.floats(0.1, 5),
        size=st.integers(1, 9),
        variation=st.integers(0, 5),
        pause=st.floats(0, 0.5),
    ),
    st.builds(Silence, st.just(CLIENT), st.floats(0.1, 5)),
)


@given(
    impairments=st.lists(st.tuples(st.floats(0, 5), IMPAIRMENTS), max_size=5),
    puts=st.lists(st.tuples(st.floats(0, 10), st.binary(min_size=1, max_size=30)), max_size=15),
    random=st.randoms(use_true_random=False),
)
def test_order_stays_and_nothing_is_lost(
    impairments: list[tuple[float, Impairment]], puts: list[tuple[float, bytes]], random: object
) -> None:
    """Unless an impairment ends the connection, all bytes come out in their order, and none before it went in."""
    line = DelayLine(random.random)  # type: ignore[attr-defined]
    events: list[tuple[float, Impairment | bytes]] = sorted([*impairments, *puts], key=lambda event: event[0])
    puts = [event for event in events if isinstance(event[1], bytes)]
    now, out = 0.0, b""
    went_in = 0
    while True:
        while events and events[0][0] <= now:
            event = events.pop(0)[1]
            if isinstance(event, bytes):
                line.put(event, now)
                went_in += len(event)
            else:
                line.impair(event, now)
        moved = line.move(now)
        if isinstance(moved, SendNow):
            out += moved.data
            assert len(moved.data) > 0
            assert len(out) + line.held == went_in
        else:
            assert isinstance(moved, WaitUntil)
            assert moved.until > now
            now = min([moved.until, *[at for at, _ in events]])
            if now == math.inf:
                break
    assert out == b"".join(data for _, data in puts)
    assert line.held == 0


@given(rate=st.floats(10, 1000), sizes=st.lists(st.integers(1, 40), min_size=1, max_size=5))
def test_never_more_than_the_bandwidth(rate: float, sizes: list[int]) -> None:
    line = line_with(Bandwidth(CLIENT, rate=rate))
    out = played(line, [(0, bytes(size)) for size in sizes], until=1e6)
    for first, (start, _) in enumerate(out):
        total = 0
        for at, data in out[first:]:
            assert isinstance(data, bytes)
            total += len(data)
            assert total <= rate * (at - start) + rate * STEP + 1.001
