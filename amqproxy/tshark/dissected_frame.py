"""A frame of either protocol as read by Wireshark's dissector."""

from __future__ import annotations

import msgspec

from amqproxy.amqp091.protocol_header import NAME


class Shown(msgspec.Struct, frozen=True):
    """A field: its text, its bytes in hexadecimal if it has any, and its nested fields."""

    label: str
    text: str
    hex: str
    within: tuple[Shown, ...] = ()


class DissectedFrame(msgspec.Struct, frozen=True, kw_only=True):
    """A frame, in the terms of `Record`; `packet` is the number of the packet that completes it.

    `method` holds the class and number of a method; the version of a protocol header is in `fields`; `flags` are 0
    where frames have none. `is_given_up` if tshark finds the frame malformed, and reads no more of it.
    """

    packet: int
    stream: int
    source_port: int
    type: str
    protocol: str = NAME
    flags: int = 0
    is_given_up: bool = False
    channel: int = 0
    size: int = 0
    method: tuple[int, int] | None = None
    fields: dict[str, Shown] = {}
    payload: bytes = b""
