"""Transcripts: what two peers say, in lines, played to a `Connection`.

    >> connection.open virtual_host=/       the client says so, on channel 0
    << 1 channel.open-ok                    the server, on channel 1
    >> 1 header 5                           a content header for five bytes of body
    >> 1 body hello
    >> (1 basic.qos)                        said, and discarded: what it belongs to is closing
    >> 1 body more                          and the line after a violation says what it is:
    !! 505 connection 0.0 +0                code, scope, class and method, bytes into the frame
    # a remark

Each line is a chunk of its own; or all that one side says without a pause is; or each byte is: a
transcript must hold every way.
"""

from __future__ import annotations

import ast
import shlex
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import NamedTuple

import pytest

from amqproxy.amqp091.connection import CLIENT, SERVER, Connection, Peer
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import BODY, HEADER, HEARTBEAT_FRAME, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import BY_NAME, Method
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.protocol_header import HEADER as PROTOCOL_HEADER
from amqproxy.amqp091.wire import Table


class Said(NamedTuple):
    """One line, and the violation it is expected to be."""

    text: str
    sender: Peer
    channel: int
    what: str
    octets: bytes
    is_discarded: bool
    violation: str


def read(transcript: str) -> list[Said]:
    lines = [line.strip() for line in transcript.splitlines() if line.strip() and not line.strip().startswith("#")]
    said = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if not line.startswith("!!"):
            said.append(_read_line(line, following[2:].strip() if following.startswith("!!") else ""))
    return said


def _read_line(line: str, violation: str) -> Said:
    sender = {">>": CLIENT, "<<": SERVER}[line[:2]]
    text = line[2:].strip()
    is_discarded = text.startswith("(")
    words = shlex.split(text.strip("()"))
    channel = int(words.pop(0)) if words[0].isdigit() else 0
    what = words.pop(0)
    return Said(line, sender, channel, what, octets_of(channel, what, words), is_discarded, violation)


def octets_of(channel: int, what: str, words: list[str]) -> bytes:
    if what == "protocol-header":
        return PROTOCOL_HEADER
    if what == "heartbeat":
        return HEARTBEAT_FRAME
    if what == "header":
        return encode_frame(HEADER, channel, ContentHeader(int(words[0])).encode())
    if what == "body":
        return encode_frame(BODY, channel, "".join(words).encode())
    return encode_method(channel, _method(what, words))


def _method(name: str, words: list[str]) -> Method:
    cls = BY_NAME[name]
    layout = dict(zip(cls.__struct_fields__, cls.layout.decode(), strict=True))
    arguments = {}
    for word in words:
        field, _, text = word.partition("=")
        letter = layout[field]
        if letter == "S":
            arguments[field] = text.encode()
        elif letter in "su":
            arguments[field] = text
        else:
            value = ast.literal_eval(text)
            arguments[field] = Table(value) if letter == "F" else value
    return cls(**arguments)


def play(transcript: str, connection: Connection | None = None) -> Connection:
    """Play it line by line; `may_send` must have told of every step."""
    connection = connection or Connection()
    for said in read(transcript):
        may = connection.may_send(said.sender, said.channel)
        _feed(connection, [said], whole)
        if said.what == "heartbeat" or said.is_discarded:
            continue
        if not said.violation:
            assert said.what in may, f"{said.text}: may_send told of {sorted(may)}"
        elif said.violation.startswith(("503", "504", "505")):
            assert said.what not in may, f"{said.text}: may_send told of it"
    return connection


Splitter = Callable[[bytes], Iterator[bytes]]


def whole(octets: bytes) -> Iterator[bytes]:
    yield octets


def by_octet(octets: bytes) -> Iterator[bytes]:
    for octet in octets:
        yield bytes((octet,))


def play_in_bursts(transcript: str, split: Splitter = whole, connection: Connection | None = None) -> Connection:
    """Play it with all that one side says at once in one chunk, cut by `split`."""
    connection = connection or Connection()
    for _, burst in groupby(_numbered(read(transcript)), key=lambda pair: pair[0]):
        _feed(connection, [said for _, said in burst], split)
    return connection


def _numbered(transcript: list[Said]) -> Iterator[tuple[int, Said]]:
    """Each line with the number of its burst; a protocol header or a violation ends one."""
    number = 0
    before: Said | None = None
    for said in transcript:
        if before and (before.sender is not said.sender or before.violation or before.what == "protocol-header"):
            number += 1
        before = said
        yield number, said


def _feed(connection: Connection, burst: list[Said], split: Splitter) -> None:
    sender, last = burst[0].sender, burst[-1]
    start = connection.readers[sender].offset
    octets = b"".join(said.octets for said in burst)
    if last.what == "protocol-header":
        connection.receive_header(sender, octets)
        return
    if last.violation:
        with pytest.raises(ProtocolError) as caught:
            _feed_pieces(connection, sender, split(octets))
        _compare(caught.value, last, start + len(octets) - len(last.octets))
        return
    found = _feed_pieces(connection, sender, split(octets))
    assert [frame.raw for frame in found] == [said.octets for said in burst if not said.is_discarded], last.text


def _feed_pieces(connection: Connection, sender: Peer, pieces: Iterator[bytes]) -> list[Frame]:
    return [frame for piece in pieces for frame in connection.feed(sender, piece)]


def _compare(error: ProtocolError, said: Said, start: int) -> None:
    assert error.offset is not None
    found = f"{error.code} {error.scope} {error.class_id}.{error.method_id} +{error.offset - start}"
    assert (found, error.channel) == (said.violation, said.channel), f"{said.text}: {error}"
