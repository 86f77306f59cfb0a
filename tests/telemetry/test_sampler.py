"""Which messages get a span; OpenTelemetry's own sampler is the judge."""

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

from amqproxy.telemetry.sampler import Sampler
from amqproxy.telemetry.trace_context import TraceContext
from tests.telemetry.spans import SPAN, TRACE


@given(st.floats(0, 1), st.integers(1, 2**128 - 1))
def test_a_trace_id_decides_as_in_opentelemetry(ratio: float, trace_id: int) -> None:
    theirs = TraceIdRatioBased(ratio).should_sample(None, trace_id, "publish").decision.is_sampled()
    context = TraceContext(f"{trace_id:032x}", SPAN, is_sampled=True)
    assert Sampler(ratio, lambda: 0.0).takes(context) is theirs


def test_none_is_taken_that_its_publisher_has_not_sampled() -> None:
    assert not Sampler(1.0, lambda: 0.0).takes(TraceContext(TRACE, SPAN, is_sampled=False))


def test_chance_decides_where_there_is_no_trace() -> None:
    numbers = [0.0, 0.24, 0.25, 0.99]
    sampler = Sampler(0.25, lambda: numbers.pop(0))
    assert [sampler.takes(None) for _ in range(4)] == [True, True, False, False]
    assert not Sampler(0.0, lambda: 0.0).takes(None)
    assert Sampler(1.0, lambda: 0.999).takes(None)
