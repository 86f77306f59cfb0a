"""A conversation in a recording that begins in its middle, with the state of the connection then."""

from __future__ import annotations

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import encode_method, every_frame
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicPublish,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.amqp091.wire import Table
from amqproxy.recording.entry_queue import EntryQueue
from amqproxy.recording.recorder_tap import RecorderTap
from amqproxy.recording.recording_encoder import RecordingEncoder
from amqproxy.taps.session_trace import SessionTrace
from tests.taps.sessions import Session


def publish(key: str, size: int) -> bytes:
    return Command(1, BasicPublish(exchange="e", routing_key=key), body=b"x" * size).encode(0)


def deliver(tag: int, size: int) -> bytes:
    return Command(1, BasicDeliver("c", tag, False, "e", "k"), body=b"y" * size).encode(0)


SAID = [
    (SERVER, encode_method(0, ConnectionStart(0, 9, Table(), b"PLAIN", b"en_US"))),
    (CLIENT, encode_method(0, ConnectionStartOk(Table(), "PLAIN", b"\0guest\0guest", "en_US"))),
    (SERVER, encode_method(0, ConnectionTune(2047, 131_072, 60))),
    (CLIENT, encode_method(0, ConnectionTuneOk(2047, 131_072, 60))),
    (CLIENT, encode_method(1, ChannelOpen())),
    (SERVER, encode_method(1, ChannelOpenOk())),
    (CLIENT, encode_method(1, ConfirmSelect())),
    (SERVER, encode_method(1, ConfirmSelectOk())),
    (CLIENT, encode_method(1, QueueDeclare(queue="q"))),
    (SERVER, encode_method(1, QueueDeclareOk("q", 0, 0))),
    (CLIENT, encode_method(1, BasicConsume(queue="q", consumer_tag="c"))),
    (SERVER, encode_method(1, BasicConsumeOk("c"))),
    *[
        each
        for number in range(1, 6)
        for each in (
            (CLIENT, publish("k", number)),
            (SERVER, deliver(number, number)),
            (SERVER, encode_method(1, BasicAck(number))),
            (CLIENT, encode_method(1, BasicAck(number))),
        )
    ],
]


def written(queue: EntryQueue) -> bytes:
    """The entries of a queue, in one file."""
    encoder = RecordingEncoder()
    return b"".join(
        [encoder.begin(0), *(bytes(piece) for each in queue.take(1_000_000) for piece in encoder.encode(each))]
    )


def recorded(since: int) -> bytes:
    """A recording that begins after so much was said, with the state that a trace of the whole has then."""
    queue = EntryQueue(1_000_000)
    now = iter(range(0, 1_000_000_000, 1000))
    tap = RecorderTap(queue, lambda session, size: None, lambda frames: None, clock=lambda: 10**18 + next(now))
    session, trace = Session(), SessionTrace()
    trace.feed_protocol_header(10**18)
    if not since:
        tap.saw_protocol_header(session, HEADER)
    for place, (sender, data) in enumerate(SAID):
        if place == since and since:
            tap.saw_snapshot(session, trace.snapshot(10**18))
        frames = every_frame(data, 0)
        if place >= since:
            tap.saw_frames(session, sender, frames)
        trace.feed_noted(sender, frames, 10**18 + place)
    return written(queue)
