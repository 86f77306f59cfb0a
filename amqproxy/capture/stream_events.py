"""Events of TCP reassembly, in the order of the wire.

`direction` is 0 for data sent by the first of a stream's two endpoints, and 1 for data sent by the second. Every
`ts_ns` is that of the packet that caused the event; `comments` are those of the packet that contained the bytes, or
that followed the gap.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from amqproxy.compiled import _cython as cython

from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from amqproxy.capture.endpoints import Endpoint


class StreamEnd(StrEnum):
    """Reasons for the end of a direction."""

    FIN = "fin"
    RST = "rst"
    REUSED = "reused"
    """A new connection between the same two ports."""
    FORGOTTEN = "forgotten"
    """Too many streams were open at once, and this was among the quietest."""
    END = "end"
    """The capture ended first."""


class Opened(msgspec.Struct, frozen=True, gc=False):
    """The first packet of a stream.

    `has_handshake` is true if a SYN identified the client, which is then the first endpoint. Otherwise the first
    endpoint is the one that sent first. In a recording of the proxy, `leg` is "client" or "upstream".
    """

    stream: int
    ts_ns: int
    endpoints: tuple[Endpoint, Endpoint]
    has_handshake: bool
    leg: str = ""
    comments: tuple[str, ...] = ()


@cython.final
@cython.no_gc
@cython.freelist(64)
@cython.auto_pickle(True)
@cython.cclass
class Data:
    """Bytes that follow the previous ones without a gap."""

    __match_args__ = ("stream", "direction", "ts_ns", "data", "comments")

    def __init__(
        self,
        stream: int,
        direction: int,
        ts_ns: int,
        data: bytes,
        comments: tuple[str, ...] = (),
    ) -> None:
        self.stream = stream
        self.direction = direction
        self.ts_ns = ts_ns
        self.data = data
        self.comments = comments

    @staticmethod
    @cython.cfunc
    def _of(
        stream: cython.longlong,
        direction: cython.int,
        ts_ns: Any,
        data: bytes,
        comments: Any,
    ) -> Data:
        """Create an instance at the speed of C."""
        if not cython.compiled:
            return Data(stream, direction, ts_ns, data, comments)
        made: Data = Data.__new__(Data)
        made.stream = stream
        made.direction = direction
        made.ts_ns = ts_ns
        made.data = data
        made.comments = comments
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Data):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__match_args__)

    def __repr__(self) -> str:
        values = ", ".join([f"{name}={getattr(self, name)!r}" for name in self.__match_args__])
        return f"Data({values})"


class Gap(msgspec.Struct, frozen=True, gc=False):
    """A gap: `lost` bytes that were sent here but are not in the capture."""

    stream: int
    direction: int
    ts_ns: int
    lost: int
    comments: tuple[str, ...] = ()


class Closed(msgspec.Struct, frozen=True, gc=False):
    """The end of a direction.

    After a FIN the other direction may continue; an RST ends both, the sender's first. `stalled_ns` is the longest
    time for which the sender has accepted no data, according to its window of 0, and `stalled_until_ns` its end.
    """

    stream: int
    direction: int
    ts_ns: int
    ending: StreamEnd
    comments: tuple[str, ...] = ()
    stalled_ns: int = 0
    stalled_until_ns: int = 0


Event: TypeAlias = Opened | Data | Gap | Closed
