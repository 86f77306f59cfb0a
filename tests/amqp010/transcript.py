"""Transcripts of 0-10, with one control or command a line, played to a `Connection`.

    >> protocol-header                      the client sends this
    << 1 session.attached name_=s           the server sends this, on channel 1
    >> 1 message.transfer destination=x body=hello sync=true
    >> 1 message.accept transfers=0-3,7     sets of commands; lists are alike; strings as in a shell
    >> (1 queue.delete queue=q)             sent, and to be discarded
    >> 1 part message.transfer body=hello   the same, without the last frame of it
    >> 1 rest message.transfer body=hello   only the last frame of it
    !! 409 session 4.2 10.2 message.accept, acquisition
    # a comment

A line `!!` names the violation that the one before it is: code, scope, class and method, and section. Each line is a
chunk; or all lines that one side sends without a pause are; or each byte is: a transcript must hold every way.
"""

from __future__ import annotations

import ast
import shlex
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, NamedTuple, get_args, get_type_hints

import pytest

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.connection import Connection
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.methods import BY_NAME, Method
from amqproxy.amqp010.properties import FragmentProperties, Header
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.results import Acquired, XaResult, Xid
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.structs import BY_NAME as STRUCTS
from amqproxy.amqp010.wire import Array
from amqproxy.peer import CLIENT, SERVER, Peer

SENDERS = {">>": CLIENT, "<<": SERVER}
FRAMES_OF = 4096


class Step(NamedTuple):
    """What one line sends, as frames, and the violation that it is expected to be."""

    text: str
    sender: Peer
    frames: list[bytes]
    is_header: bool
    is_discarded: bool
    violation: str

    @property
    def data(self) -> bytes:
        return b"".join(self.frames)


def steps_of(transcript: str) -> list[Step]:
    lines = [line for line in map(str.strip, transcript.splitlines()) if line and not line.startswith("#")]
    followers = [*lines[1:], ""]
    return [
        _step(line, follower[2:].strip() if follower.startswith("!!") else "")
        for line, follower in zip(lines, followers, strict=True)
        if not line.startswith("!!")
    ]


def _step(line: str, violation: str) -> Step:
    sender, text = SENDERS[line[:2]], line[2:].strip()
    is_discarded = text.startswith("(")
    words = shlex.split(text.strip("()") if is_discarded else text)
    if words[0] in ("protocol-header", "other-protocol-header"):
        data = HEADER if words[0] == "protocol-header" else b"AMQP\x00\x00\x09\x01"
        return Step(line, sender, [data], True, False, violation)
    channel = int(words.pop(0)) if words[0].isdigit() else 0
    piece = words.pop(0) if words[0] in ("part", "rest") else ""
    frames = _frames(assembly(channel, words))
    frames = {"": frames, "part": frames[:-1], "rest": frames[-1:]}[piece]
    return Step(line, sender, frames, False, is_discarded, violation)


def _frames(made: Assembly) -> list[bytes]:
    raw, frames = made.encode(FRAMES_OF), []
    while raw:
        size = int.from_bytes(raw[2:4])
        frames.append(raw[:size])
        raw = raw[size:]
    return frames


def assembly(channel: int, words: list[str]) -> Assembly:
    """A control or command, with `body=` and `fragment=` where it has content."""
    name, *arguments = words
    values = dict(each.split("=", 1) for each in arguments)
    body = values.pop("body", None)
    fragment = values.pop("fragment", None)
    header = None
    if fragment is not None:
        header = Header((FragmentProperties(first="first" in fragment, last="last" in fragment),))
    return Assembly(channel, method(name, values), header, None if body is None else body.encode())


def method(name: str, values: dict[str, str]) -> Method:
    """The control or command, each of its arguments of the field's type."""
    cls = BY_NAME[name]
    hints = get_type_hints(cls, include_extras=True)
    return cls(**{field: _value(_wire_type(hints[field]), text) for field, text in values.items()})


def _wire_type(hint: Any) -> Any:
    """The type of a field: a word of `fields`, or a struct."""
    for word in getattr(hint, "__metadata__", ()):
        if isinstance(word, str) and word != "required":
            return word
    if isinstance(hint, type) and hint.__name__ in ("Xid", "ReplyTo"):
        return hint
    inner = (hint.__origin__,) if hasattr(hint, "__metadata__") else get_args(hint)
    return next((found for each in inner if (found := _wire_type(each))), None)


def _value(wire_type: Any, text: str) -> Any:
    if wire_type is None or wire_type == "bit":
        return {"true": True, "false": False}[text]
    if wire_type is Xid:
        return Xid(1, text.encode(), b"")
    match wire_type:
        case "sequence-set":
            return SequenceSet(_ranges(text))
        case "array":
            return Array("str16", text.split(",") if text else ())
        case "vbin8" | "vbin16" | "vbin32":
            return text.encode()
        case "struct32":
            kind, _, value = text.partition(":")
            if kind == "acquired":
                return Acquired(SequenceSet(_ranges(value)))
            return XaResult(int(value)) if kind == "xa" else STRUCTS[kind]()
        case "str8" | "str16":
            return text
        case _:
            return ast.literal_eval(text)


def _ranges(text: str) -> list[tuple[int, int]]:
    """`0-3,7` as closed ranges."""
    pairs = [each.partition("-") for each in text.split(",") if each]
    return [(int(first), int(last or first)) for first, _, last in pairs]


# --- playing


Splitter = Callable[[bytes], Iterator[bytes]]


def whole(data: bytes) -> Iterator[bytes]:
    yield data


def by_byte(data: bytes) -> Iterator[bytes]:
    for byte in data:
        yield bytes((byte,))


def play(transcript: str, connection: Connection | None = None) -> Connection:
    """Play it line by line."""
    connection = connection or Connection()
    for step in steps_of(transcript):
        _feed(connection, [step], whole)
    return connection


def play_in_bursts(transcript: str, split: Splitter = whole, connection: Connection | None = None) -> Connection:
    """Play it with all that one side sends at once in one chunk, cut by `split`."""
    connection = connection or Connection()
    for _, burst in groupby(_numbered(steps_of(transcript)), key=lambda pair: pair[0]):
        _feed(connection, [step for _, step in burst], split)
    return connection


def _numbered(steps: list[Step]) -> Iterator[tuple[int, Step]]:
    """Each step with the number of its burst; a protocol header or a violation ends one."""
    number = 0
    before: Step | None = None
    for step in steps:
        if before and (before.sender is not step.sender or before.violation or before.is_header or step.is_header):
            number += 1
        before = step
        yield number, step


def _feed(connection: Connection, burst: list[Step], split: Splitter) -> None:
    _feed_burst(connection, burst, split)
    attached = [channel for channel in connection.channels.values() if channel.session is not None]
    assert connection.session_count == len(attached)


def _feed_burst(connection: Connection, burst: list[Step], split: Splitter) -> None:
    last = burst[-1]
    data = b"".join(step.data for step in burst)
    if last.is_header:
        if last.violation:
            with pytest.raises(ProtocolError) as caught:
                connection.receive_header(last.sender, data)
            _compare(caught.value, last)
            return
        connection.receive_header(last.sender, data)
        return
    if last.violation:
        with pytest.raises(ProtocolError) as caught:
            _feed_pieces(connection, last.sender, split(data))
        _compare(caught.value, last)
        return
    found = _feed_pieces(connection, last.sender, split(data))
    expected = [raw for step in burst if not step.is_discarded for raw in step.frames]
    assert [frame.raw for frame in found] == expected, last.text


def _feed_pieces(connection: Connection, sender: Peer, pieces: Iterator[bytes]) -> list[Frame]:
    return [frame for piece in pieces for frame in connection.feed(sender, piece)]


def _compare(error: ProtocolError, step: Step) -> None:
    found = f"{int(error.code)} {error.scope} {error.class_code}.{error.method_code} {error.section}".strip()
    assert found == step.violation, f"{step.text}: {error}"
