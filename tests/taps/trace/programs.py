"""Random programs of a client and a broker, what they put on the wire, and how a trace is fed with it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from random import Random
from typing import Any

from hypothesis import strategies as st

from amqproxy.amqp091.transitions import Peer
from amqproxy.taps.trace.amqp091.connection_trace import Trace
from amqproxy.taps.trace.events import TraceEvent
from tests.taps.trace.simulation import CHANNELS, Passed, Simulation, Step

WEIGHTS = {
    "open": 4,
    "handle": 8,
    "publish": 6,
    "settle": 5,
    "deliver": 5,
    "confirm": 5,
    "consume": 3,
    "cancel": 2,
    "get": 2,
    "declare": 2,
    "declare_missing": 1,
    "qos": 1,
    "recover": 1,
    "select": 2,
    "end_transaction": 2,
    "flow": 1,
    "answer_flow": 1,
    "read_mailbox": 3,
    "finish_content": 3,
    "cancel_by_broker": 1,
    "close": 1,
    "close_by_broker": 1,
    "close_ok": 3,
    "close_connection": 1,
    "close_connection_ok": 1,
}

small = st.integers(0, 255)
steps = st.builds(
    Step,
    st.sampled_from([name for name, weight in WEIGHTS.items() for _ in range(weight)]),
    st.sampled_from((1, 1, *CHANNELS)),
    small,
    small,
    st.booleans(),
)
programs = st.lists(steps, min_size=5, max_size=120)
OPENED = [Step("open", 1, 0, 0, True), Step("handle", 1, 0, 0, True)]


def simulated(program: list[Step]) -> Simulation:
    simulation = Simulation()
    simulation.run(OPENED + program)
    simulation.finish()
    return simulation


def reads(passed: Iterable[Passed]) -> Iterable[tuple[Peer, int, list[Any]]]:
    for (sender, ts_ns), group in groupby(passed, key=lambda each: (each.sender, each.ts_ns)):
        yield sender, ts_ns, [each.frame for each in group]


def fed(trace: Trace, passed: Iterable[Passed]) -> list[TraceEvent]:
    return [event for sender, ts_ns, frames in reads(passed) for event in trace.feed(sender, frames, ts_ns)]


def is_clear(simulation: Simulation) -> bool:
    """Does the wire show all that is true?"""
    return not any(
        life.has_unclear_consumers or any(each.is_ambiguous for each in life.deliveries) for life in simulation.lives
    )


def random_program(seed: int) -> list[Step]:
    """A long one: hypothesis prefers short ones, in which little happens."""
    random = Random(seed)
    names, weights = list(WEIGHTS), list(WEIGHTS.values())
    return [
        Step(
            random.choices(names, weights)[0],
            random.choice((1, 1, 1, *CHANNELS)),
            random.randrange(256),
            random.randrange(256),
            random.random() < 0.5,
        )
        for _ in range(random.randrange(50, 400))
    ]
