"""Captures, and whatever frames there could be, for what decodes them in another way."""

from hypothesis import strategies as st

from amqproxy.amqp010 import frame as amqp010
from amqproxy.amqp091.frame import BODY, HEADER, HEARTBEAT_FRAME, METHOD, encode_frame
from tests.amqp010 import strategies as amqp010_strategies
from tests.amqp091 import strategies
from tests.capture import golden, shared_captures

CAPTURES = [*golden.captures(), *shared_captures.files()]
WHERE = (5, 3, "10.0.0.1:40000-10.0.0.2:5672", "client")


@st.composite
def payloads(draw: st.DrawFn) -> bytes:
    """A frame whose head and end are right; its payload may be anything."""
    kind = draw(st.sampled_from((METHOD, METHOD, HEADER, HEADER, BODY)))
    channel = draw(st.integers(0, 0xFFFF))
    is_changed = draw(st.booleans())
    if kind == METHOD:
        payload = draw(strategies.methods).encode()
        if is_changed:
            payload = payload[:4] + draw(strategies.mutated(st.just(payload[4:])))
    elif kind == HEADER:
        payload = draw(strategies.headers).encode()
        if is_changed:
            payload = draw(strategies.mutated(st.just(payload)))
    else:
        payload = draw(st.one_of(st.text(max_size=40).map(str.encode), st.binary(max_size=40)))
    return encode_frame(kind, channel, payload)


frames = st.lists(st.one_of(payloads(), st.just(HEARTBEAT_FRAME)), min_size=1, max_size=8).map(b"".join)
times = st.one_of(st.integers(0, 2**62), st.integers(-(2**70), 2**70))


@st.composite
def amqp010_frames(draw: st.DrawFn) -> amqp010.Frame:
    """A frame of 0-10 whose head is right; its payload may be anything."""
    kind = draw(st.sampled_from((amqp010.COMMAND, amqp010.HEADER, amqp010.HEADER, amqp010.BODY)))
    flags = draw(st.one_of(st.just(amqp010.WHOLE_ASSEMBLY), st.integers(0, 15)))
    if kind == amqp010.COMMAND:
        method = draw(amqp010_strategies.methods)
        kind, payload = int(method.segment), method.encode()
    elif kind == amqp010.HEADER:
        payload = draw(amqp010_strategies.headers).encode()
    else:
        payload = draw(st.one_of(st.text(max_size=40).map(str.encode), st.binary(max_size=40)))
    if draw(st.booleans()):
        payload = payload[:2] + draw(strategies.mutated(st.just(payload[2:])))
    return amqp010.Frame(amqp010.encode_frame(flags, kind, draw(st.integers(0, 0xFFFF)), payload[:65_000]))
