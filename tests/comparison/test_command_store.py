"""What is stored of a capture, and how much of it memory holds."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import closing

import pytest

from amqproxy.amqp091.frame import BODY, HEADER, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicPublish,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    Method,
)
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.protocol_header import HEADER as PROTOCOL_HEADER
from amqproxy.amqp091.protocol_header import NAME
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import Decoded, DecodedProtocolHeader, StreamEnded
from amqproxy.comparison import command_store
from amqproxy.comparison.command_store import CommandStore
from amqproxy.comparison.comparison import ComparisonSummary, compared
from amqproxy.comparison.difference import Difference, DifferenceKind

ENDS = "1.2.3.4:5-6.7.8.9:5672"


def publisher(stream: int, bodies: Iterator[bytes], *, confirmed: int) -> Iterator[Decoded]:
    """A connection that publishes, with a confirm for the first ones."""
    ts_ns = 0

    def sent(sender: str, *raw: bytes) -> Decoded:
        nonlocal ts_ns
        ts_ns += 1_000
        return Amqp091DecodedFrames(ts_ns, stream, ENDS, sender, [Frame(each) for each in raw])

    def method(sender: str, method: Method) -> Decoded:
        return sent(sender, encode_method(1, method))

    yield DecodedProtocolHeader(0, stream, ENDS, "client", NAME, PROTOCOL_HEADER)
    yield method("client", ChannelOpen())
    yield method("server", ChannelOpenOk())
    yield method("client", ConfirmSelect())
    yield method("server", ConfirmSelectOk())
    publish = encode_method(1, BasicPublish(exchange="x", routing_key="k"))
    for number, body in enumerate(bodies, 1):
        header = encode_frame(HEADER, 1, ContentHeader(len(body)).encode())
        yield sent("client", publish, header, *([encode_frame(BODY, 1, body)] if body else []))
        if number <= confirmed:
            yield method("server", BasicAck(number))
    yield StreamEnded(ts_ns, stream, ENDS, "the capture ends")


def test_what_became_of_each_publish() -> None:
    with closing(CommandStore()) as store:
        store.load(publisher(0, (b"%d" % number for number in range(4)), confirmed=2))
        (channel,) = (each.ref for each in store.channels(0) if each.alike == 1)
        commands = [store.command(item.ref) for item in store.items(store.tracks(channel)["client"])]
    assert [(each.type, each.fields["outcome"]) for each in commands] == [
        ("channel", "opened"),
        ("request", "answered"),
        ("publish", "confirmed"),
        ("publish", "confirmed"),
        ("publish", "open"),
        ("publish", "open"),
    ]
    assert [each.body for each in commands[2:]] == [b"0", b"1", b"2", b"3"]


def test_memory_does_not_grow_with_the_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_store, "CACHE_KIB", 256)
    count, size = 3000, 20_000  # 60 MB on each side

    def bodies(changed: int) -> Iterator[bytes]:
        for number in range(count):
            yield (b"%d" % (number + (number == changed))).ljust(size, b".")

    tracemalloc.start()
    try:
        with closing(CommandStore()) as one, closing(CommandStore()) as other:
            one.load(publisher(0, bodies(-1), confirmed=count))
            other.load(publisher(0, bodies(2000), confirmed=count))
            found = list(compared(one, other))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    (difference,) = [each for each in found if isinstance(each, Difference)]
    assert (difference.kind, difference.changes[0].at) == (DifferenceKind.CHANGED, 3)
    assert peak < 2 * command_store.BATCH * (size + 4096)


def test_connections_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_store, "MAX_CONNECTIONS", 3)

    def many() -> Iterator[Decoded]:
        for stream in range(5):
            yield from publisher(stream, iter((b"",)), confirmed=0)

    with closing(CommandStore()) as one, closing(CommandStore()) as other:
        one.load(many())
        other.load(many())
        summary = list(compared(one, other))[-1]
    assert isinstance(summary, ComparisonSummary)
    assert (summary.is_same, summary.omitted_connections, summary.connections) == (False, 4, {"a": 3, "b": 3})
