"""The protocols that can be recorded, by name: how their bytes are cut into packets, and their secrets masked."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from amqproxy.amqp010 import protocol_header as amqp010_header
from amqproxy.amqp091 import protocol_header as amqp091_header
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import OVERHEAD, Frame, count_frames
from amqproxy.amqp091.protocol_header import OPAQUE
from amqproxy.capture.amqp010 import frame_cuts as amqp010_cuts
from amqproxy.capture.amqp010 import secrets as amqp010_secrets
from amqproxy.capture.amqp091 import frame_cuts as amqp091_cuts
from amqproxy.capture.amqp091 import secrets as amqp091_secrets
from amqproxy.capture.cuts import Cuts


class Dialect(NamedTuple):
    """A protocol, as a recording treats its bytes.

    `masked` takes whole frames and returns them without secrets, the same object if there are none; `masked_rubbish`
    takes any bytes. `segments` is as in `frame_cuts`. `connection_name` returns the name that a client gives in frames
    with a secret. If it `is_cut_in_groups`, a `FrameCutter` finds the cuts and the secrets of many entries at once. A
    leg of a protocol that `numbers_commands` is only understood with all its frames.
    """

    name: str
    masked: Callable[[bytes], bytes]
    masked_rubbish: Callable[[bytes], bytes]
    segments: Callable[[bytes, int, int], Cuts]
    count_frames: Callable[[bytes], int]
    connection_name: Callable[[bytes], str] = lambda data: ""
    is_cut_in_groups: bool = False
    numbers_commands: bool = False


def _count_amqp091(data: bytes) -> int:
    return count_frames(data) or bool(data)


def _amqp091_name(data: bytes) -> str:
    at = amqp091_cuts.secret_frame(data, 0)
    frame = Frame(data[at : at + OVERHEAD + int.from_bytes(data[at + 3 : at + 7])])
    try:
        name = frame.method.client_properties["connection_name"]
    except (ProtocolError, AttributeError, KeyError):  # another method with a secret, for example
        return ""
    return name if isinstance(name, str) else ""


AMQP091 = Dialect(
    amqp091_header.NAME,
    amqp091_secrets.masked,
    amqp091_secrets.masked_rubbish,
    amqp091_cuts.segments,
    _count_amqp091,
    _amqp091_name,
    is_cut_in_groups=True,
)


def _unread_segments(data: bytes, most: int, body: int) -> Cuts:
    """Return packets of `most` bytes; with a limit of the recorded body, as much of each is kept."""
    bounds = [(start, min(start + most, len(data))) for start in range(0, len(data), most)]
    return [(start, end if body < 0 else min(end, start + body), end) for start, end in bounds]


UNREAD = Dialect("", lambda data: data, lambda data: b"*" * len(data), _unread_segments, bool)
"""Bytes of a protocol that is not decoded, whose login is masked already."""

DIALECTS = {
    AMQP091.name: AMQP091,
    amqp010_header.NAME: Dialect(
        amqp010_header.NAME,
        amqp010_secrets.masked,
        amqp010_secrets.masked_rubbish,
        amqp010_cuts.segments,
        lambda data: sum(1 for _ in amqp010_cuts.frame_bounds(data)),
        numbers_commands=True,
    ),
}


def dialect_of(protocol: str | None) -> Dialect:
    """Return the dialect of a protocol; bytes that are not of AMQP are recorded as 0-9-1."""
    if protocol in OPAQUE:
        return UNREAD
    return DIALECTS.get(protocol or "", AMQP091)
