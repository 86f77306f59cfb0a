"""A frame as Wireshark's dissector reads it, of either protocol."""

from __future__ import annotations

import msgspec

from amqproxy.amqp091.protocol_header import NAME


class Shown(msgspec.Struct, frozen=True):
    """A field: its text, its bytes in hexadecimal where it has any, and what is within it."""

    label: str
    text: str
    hex: str
    within: tuple[Shown, ...] = ()


class DissectedFrame(msgspec.Struct, frozen=True, kw_only=True):
    """One frame, in the terms of `Record`; `packet` is the number of the packet that completes it.

    Of a method, `method` is its class and its number, and of a protocol header its version is in `fields`; `flags` are
    those of 0-10. `is_given_up`: tshark finds something malformed in it, and reads no more of it.
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
