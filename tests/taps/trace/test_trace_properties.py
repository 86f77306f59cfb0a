"""In random programs, what comes out of a trace is true, and all that can be known."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.taps.trace.amqp091.connection_trace import Trace
from amqproxy.taps.trace.events import TraceEvent
from tests.example_count import example_count
from tests.taps.trace.checker import Checker
from tests.taps.trace.programs import fed, is_clear, programs, simulated
from tests.taps.trace.simulation import Step


@settings(max_examples=example_count(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(programs)
def test_a_trace_that_sees_everything_knows_everything(program: list[Step]) -> None:
    simulation = simulated(program)
    trace = Trace(body=64)
    trace.feed_protocol_header(0)
    events = fed(trace, simulation.passed) + trace.end(simulation.ts_ns, "over")
    checker = Checker(simulation)
    checker.check(events)
    if is_clear(simulation):
        assert checker.claims == checker.expected()


@settings(max_examples=example_count(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    programs,
    st.lists(st.tuples(st.floats(0, 1), st.integers(1, 12), st.booleans()), max_size=3),
    st.floats(0, 1),
    st.booleans(),
)
def test_a_trace_that_misses_something_claims_nothing_that_is_false(
    program: list[Step], gaps: list[tuple[float, int, bool]], joined: float, is_other_whole: bool
) -> None:
    simulation = simulated(program)
    passed = simulation.passed
    start = int(joined * len(passed)) if joined > 0.5 else 0
    trace = Trace(body=64)
    if not start:
        trace.feed_protocol_header(0)
    missed: dict[int, Peer] = {}
    for place, count, is_clients in gaps:
        sender = CLIENT if is_clients else SERVER
        mine = [at for at in range(start, len(passed)) if passed[at].sender is sender]
        first = int(place * len(mine))
        missed |= dict.fromkeys(mine[first : first + count], sender)
    events: list[TraceEvent] = []
    for at, each in enumerate(passed[start:], start):
        if at in missed:
            if at + 1 not in missed or passed[at + 1].sender is not each.sender:
                events += trace.gap(each.sender, each.ts_ns, "missing", is_other_whole=is_other_whole)
        else:
            events += trace.feed(each.sender, [each.frame], each.ts_ns)
    events += trace.end(simulation.ts_ns, "over")
    Checker(simulation).check(events)


@settings(max_examples=example_count(200), deadline=None, suppress_health_check=list(HealthCheck))
@given(programs, st.integers(1, 6), st.integers(0, 20_000))
def test_a_trace_that_forgets_claims_nothing_that_is_false(
    program: list[Step], max_spans: int, max_memory: int
) -> None:
    simulation = simulated(program)
    trace = Trace(body=64, max_spans=max_spans, max_memory=max_memory)
    trace.feed_protocol_header(0)
    events = fed(trace, simulation.passed) + trace.end(simulation.ts_ns, "over")
    Checker(simulation).check(events)
