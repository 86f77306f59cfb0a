"""What the headers of a message say of the trace that it belongs to; OpenTelemetry's own reader is the judge."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from amqproxy.amqp091.wire import Table
from amqproxy.telemetry.trace_context import MAX_TRACESTATE, TraceContext, trace_context
from tests.telemetry.spans import SPAN, TRACE

GOOD = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        (None, None),
        ({}, None),
        ({"other": 1}, None),
        ({"traceparent": GOOD}, TraceContext(TRACE, SPAN, True)),
        ({"traceparent": GOOD.encode()}, TraceContext(TRACE, SPAN, True)),
        ({"traceparent": f"00-{TRACE}-{SPAN}-00"}, TraceContext(TRACE, SPAN, False)),
        ({"traceparent": f"00-{TRACE}-{SPAN}-03"}, TraceContext(TRACE, SPAN, True)),
        ({"traceparent": f"cc-{TRACE}-{SPAN}-01-what-the-future-brings"}, TraceContext(TRACE, SPAN, True)),
        ({"traceparent": GOOD, "tracestate": "a=1,b=2"}, TraceContext(TRACE, SPAN, True, "a=1,b=2")),
        ({"traceparent": GOOD, "tracestate": b"a=1"}, TraceContext(TRACE, SPAN, True, "a=1")),
        ({"traceparent": GOOD, "tracestate": "a=" + "x" * MAX_TRACESTATE}, TraceContext(TRACE, SPAN, True)),
        ({"traceparent": GOOD, "tracestate": "ä=1"}, TraceContext(TRACE, SPAN, True)),
        ({"traceparent": GOOD, "tracestate": 5}, TraceContext(TRACE, SPAN, True)),
        ({"traceparent": 5}, None),
        ({"traceparent": ""}, None),
        ({"traceparent": f"ff-{TRACE}-{SPAN}-01"}, None),
        ({"traceparent": f"00-{TRACE}-{SPAN}-01-more"}, None),
        ({"traceparent": f"00-{TRACE.upper()}-{SPAN}-01"}, None),
        ({"traceparent": f"00-{'0' * 32}-{SPAN}-01"}, None),
        ({"traceparent": f"00-{TRACE}-{'0' * 16}-01"}, None),
        ({"traceparent": f"00-{TRACE}-{SPAN}"}, None),
        ({"traceparent": GOOD + "\0"}, None),
        ({"tracestate": "a=1"}, None),
    ],
)
def test_headers(headers: dict[str, Any] | None, found: TraceContext | None) -> None:
    assert trace_context(headers) == found
    if headers:
        assert trace_context(Table(headers)) == found


HEX = "0123456789abcdef"


@given(
    st.one_of(
        st.text("0123456789abcdefAF-g ", max_size=60),
        st.builds(
            "{}-{}-{}-{}{}".format,
            st.sampled_from(("00", "01", "ff", "0")),
            st.text(HEX, min_size=31, max_size=33),
            st.text(HEX, min_size=16, max_size=16) | st.just("0" * 16),
            st.text(HEX, min_size=2, max_size=2),
            st.sampled_from(("", "-x", "x")),
        ),
    )
)
def test_as_opentelemetry_reads_it(text: str) -> None:
    context = TraceContextTextMapPropagator().extract({"traceparent": text})
    theirs = trace.get_current_span(context).get_span_context()
    ours = trace_context({"traceparent": text})
    assert (ours is not None) == theirs.is_valid
    if ours is not None:
        assert (int(ours.trace_id, 16), int(ours.span_id, 16)) == (theirs.trace_id, theirs.span_id)
        assert ours.is_sampled == theirs.trace_flags.sampled
