"""Transcripts with one frame a line, and all of its arguments.

    >> connection.open virtual_host=/       the client sends this, on channel 0
    << 1 channel.open-ok                    the server sends this, on channel 1
    >> 1 basic.publish routing_key='a b'    strings as in a shell; other arguments are Python literals, or true, false
    >> 1 header 5                           a content header for five bytes of body
    >> 1 body hello
    >> heartbeat
    >> protocol-header
    >> (1 basic.qos)                        sent, and to be discarded
    => 1 basic.publish routing_key=b        the server receives this
    <= 1 basic.ack delivery_tag=2           the client receives this
    -- 1.5                                  so many seconds pass
    !! 505 connection 0.0 +0                an error; what it consists of is up to the player
    # a comment

Players differ in what they accept: their docstrings name the marks.
"""

from __future__ import annotations

import ast
import shlex
from collections.abc import Iterable
from typing import NamedTuple

from amqproxy.amqp091.frame import BODY, HEADER, HEARTBEAT_FRAME, encode_frame, encode_method
from amqproxy.amqp091.methods import BY_NAME, Method
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.protocol_header import HEADER as PROTOCOL_HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.amqp091.wire import Table

FRAMES = {">>": CLIENT, "<<": SERVER, "=>": SERVER, "<=": CLIENT}
"""The marks of lines that are a frame, and the peer that sends or receives it."""

REMARKS = ("--", "!!")


class Line(NamedTuple):
    """One line, which is a frame unless its mark is one of `REMARKS`."""

    mark: str
    text: str
    """All behind the mark."""
    channel: int = 0
    what: str = ""
    """The method, `header`, `body`, `heartbeat` or `protocol-header`."""
    data: bytes = b""
    is_discarded: bool = False

    @property
    def peer(self) -> Peer:
        """The peer that sends the frame (`>>`, `<<`) or receives it (`=>`, `<=`)."""
        return FRAMES[self.mark]

    def __str__(self) -> str:
        return f"{self.mark} {self.text}"


def parse(transcript: str) -> list[Line]:
    """All lines but empty ones and comments."""
    lines = map(str.strip, transcript.splitlines())
    return [_parse_line(line) for line in lines if line and not line.startswith("#")]


def _parse_line(line: str) -> Line:
    mark, text = line[:2], line[2:].strip()
    if mark in REMARKS:
        return Line(mark, text)
    if mark not in FRAMES:
        raise ValueError(f"no line of a transcript: {line}")
    is_discarded = text.startswith("(")
    words = shlex.split(text.strip("()") if is_discarded else text)
    channel = int(words.pop(0)) if words[0].isdigit() else 0
    what, *arguments = words
    return Line(mark, text, channel, what, _encode(channel, what, arguments), is_discarded)


def _encode(channel: int, what: str, arguments: list[str]) -> bytes:
    if what == "protocol-header":
        return PROTOCOL_HEADER
    if what == "heartbeat":
        return HEARTBEAT_FRAME
    if what == "header":
        return encode_frame(HEADER, channel, ContentHeader(int(arguments[0])).encode())
    if what == "body":
        return encode_frame(BODY, channel, "".join(arguments).encode())
    return encode_method(channel, parse_method(what, arguments))


def parse_method(name: str, arguments: Iterable[str]) -> Method:
    """The method, with its arguments as `field=value`, each of the field's type."""
    cls = BY_NAME[name]
    layout = dict(zip(cls.__struct_fields__, cls.layout.decode(), strict=True))
    values = {}
    for argument in arguments:
        field, _, text = argument.partition("=")
        values[field] = _parse_value(layout[field], text)
    return cls(**values)


def _parse_value(letter: str, text: str) -> object:
    """A value of the type that the letter of a layout stands for."""
    if letter == "S":
        return text.encode()
    if letter in "su":
        return text
    value = {"true": True, "false": False}[text] if text in ("true", "false") else ast.literal_eval(text)
    return Table(value) if letter == "F" else value
