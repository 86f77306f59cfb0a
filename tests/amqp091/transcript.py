"""Transcripts in the dialect of `tests.transcripts.lines`, played to a `Connection`.

Frames are sent (`>>`, `<<`); those in parentheses are discarded, since what they belong to is closing. A line `!!`
names the violation that the frame before it is: code, scope, class and method, and bytes into the frame:

    >> 1 body more
    !! 505 connection 0.0 +0

Each line is a chunk; or all lines that one side sends without a pause are; or each byte is: a transcript must hold
every way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import NamedTuple

import pytest

from amqproxy.amqp091.connection import Connection, Peer
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import Frame
from tests.amqp091.tracking import TrackingConnection
from tests.transcripts.lines import Line, parse


class Step(NamedTuple):
    """One frame that is sent, and the violation that it is expected to be."""

    line: Line
    violation: str


def steps_of(transcript: str) -> list[Step]:
    lines = parse(transcript)
    followers: list[Line | None] = [*lines[1:], None]
    return [
        Step(line, follower.text if follower and follower.mark == "!!" else "")
        for line, follower in zip(lines, followers, strict=True)
        if line.mark != "!!"
    ]


def play(transcript: str, connection: Connection | None = None) -> Connection:
    """Play it line by line; `may_send` must have allowed every step, and no violation of the protocol's states."""
    connection = connection or TrackingConnection()
    for step in steps_of(transcript):
        line = step.line
        may = connection.may_send(line.peer, line.channel)
        _feed(connection, [step], whole)
        if line.what == "heartbeat" or line.is_discarded:
            continue
        if not step.violation:
            assert line.what in may, f"{line}: may_send allowed {sorted(may)}"
        elif step.violation.startswith(("503", "504", "505")):
            assert line.what not in may, f"{line}: may_send allowed it"
    return connection


Splitter = Callable[[bytes], Iterator[bytes]]


def whole(data: bytes) -> Iterator[bytes]:
    yield data


def by_byte(data: bytes) -> Iterator[bytes]:
    for byte in data:
        yield bytes((byte,))


def play_in_bursts(transcript: str, split: Splitter = whole, connection: Connection | None = None) -> Connection:
    """Play it with all that one side sends at once in one chunk, cut by `split`."""
    connection = connection or TrackingConnection()
    for _, burst in groupby(_numbered(steps_of(transcript)), key=lambda pair: pair[0]):
        _feed(connection, [step for _, step in burst], split)
    return connection


def _numbered(steps: list[Step]) -> Iterator[tuple[int, Step]]:
    """Each step with the number of its burst; a protocol header or a violation ends one."""
    number = 0
    before: Step | None = None
    for step in steps:
        if before and (
            before.line.peer is not step.line.peer or before.violation or before.line.what == "protocol-header"
        ):
            number += 1
        before = step
        yield number, step


def _feed(connection: Connection, burst: list[Step], split: Splitter) -> None:
    last, violation = burst[-1]
    sender = last.peer
    start = connection.readers[sender].offset
    data = b"".join(line.data for line, _ in burst)
    if last.what == "protocol-header":
        connection.receive_header(sender, data)
        return
    if violation:
        with pytest.raises(ProtocolError) as caught:
            _feed_pieces(connection, sender, split(data))
        _compare(caught.value, burst[-1], start + len(data) - len(last.data))
        return
    found = _feed_pieces(connection, sender, split(data))
    assert [frame.raw for frame in found] == [line.data for line, _ in burst if not line.is_discarded], last


def _feed_pieces(connection: Connection, sender: Peer, pieces: Iterator[bytes]) -> list[Frame]:
    return [frame for piece in pieces for frame in connection.feed(sender, piece)]


def _compare(error: ProtocolError, step: Step, start: int) -> None:
    assert error.offset is not None
    found = f"{error.code} {error.scope} {error.class_id}.{error.method_id} +{error.offset - start}"
    assert (found, error.channel) == (step.violation, step.line.channel), f"{step.line}: {error}"
