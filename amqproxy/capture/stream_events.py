"""What comes out of TCP reassembly, in the order of the wire.

`direction` is 0 for what the first of a stream's two endpoints sent, and 1 for what the second sent. Every `ts_ns` is
that of the packet which brought the event about.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import msgspec

from amqproxy.capture.endpoints import Endpoint


class StreamEnd(StrEnum):
    """Why no more bytes come in a direction."""

    FIN = "fin"
    RST = "rst"
    REUSED = "reused"
    """A new connection between the same two ports."""
    FORGOTTEN = "forgotten"
    """Too many streams at once, and this was among the quietest."""
    END = "end"
    """The capture ended first."""


class Opened(msgspec.Struct, frozen=True, gc=False):
    """The first packet of a stream.

    `has_handshake` is true if a SYN identified the client, which is then the first endpoint. Otherwise the first
    endpoint is the one that sent first.
    """

    stream: int
    ts_ns: int
    endpoints: tuple[Endpoint, Endpoint]
    has_handshake: bool


class Data(msgspec.Struct, frozen=True, gc=False):
    """Bytes that follow those before them without a hole."""

    stream: int
    direction: int
    ts_ns: int
    data: bytes


class Gap(msgspec.Struct, frozen=True, gc=False):
    """`lost` bytes that were sent here and are not in the capture."""

    stream: int
    direction: int
    ts_ns: int
    lost: int


class Closed(msgspec.Struct, frozen=True, gc=False):
    """A direction ended.

    After an RST the other direction may still bring what was under way when it was sent.
    """

    stream: int
    direction: int
    ts_ns: int
    ending: StreamEnd


Event: TypeAlias = Opened | Data | Gap | Closed
