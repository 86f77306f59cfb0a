"""Log of the live traffic of a replay, in memory: it can be decoded, or written as a capture."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address

import msgspec

from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.capture.decode import Decoder
from amqproxy.capture.decoded import Decoded
from amqproxy.capture.endpoints import Endpoint
from amqproxy.capture.stream_events import Closed, Data, Opened, StreamEnd

MAX_BYTES = 256 * 1024 * 1024
"""Size limit of a log in bytes; later traffic is not logged."""

CLIENT_ADDRESS, SERVER_ADDRESS = IPv4Address("127.0.0.1"), IPv4Address("127.0.0.1")
SERVER_PORT = 5672
FIRST_CLIENT_PORT = 40000


def endpoints_of(stream: int) -> tuple[Endpoint, Endpoint]:
    """Return the endpoints of a live connection, the client's first: synthetic ones, the same in each replay."""
    port = FIRST_CLIENT_PORT + stream % (65536 - FIRST_CLIENT_PORT)
    return Endpoint(CLIENT_ADDRESS.packed, port), Endpoint(SERVER_ADDRESS.packed, SERVER_PORT)


class LoggedBytes(msgspec.Struct, frozen=True, gc=False):
    """Bytes that `sender` sent at once on a connection, at `ts_ns` since 1970."""

    ts_ns: int
    stream: int
    sender: Peer
    data: bytes


class TrafficLog:
    """Bytes in the order in which they were sent; `epoch_ns` is the time at which the replay's clock was 0."""

    def __init__(self, epoch_ns: int) -> None:
        self.chunks: list[LoggedBytes] = []
        self._epoch_ns = epoch_ns
        self._size = 0

    def note(self, stream: int, sender: Peer, data: bytes, now: float) -> None:
        """Log sent bytes, as a `Watch`."""
        self._size += len(data)
        if self._size <= MAX_BYTES:
            self.chunks.append(LoggedBytes(self._epoch_ns + int(now * 1e9), stream, sender, data))

    @property
    def streams(self) -> list[int]:
        """The connections, in the order of their first bytes."""
        return list(dict.fromkeys(each.stream for each in self.chunks))

    def decoded(self) -> Iterator[Decoded]:
        """Yield the traffic as a capture of it would decode."""
        decoder = Decoder()
        opened: set[int] = set()
        last_ns = 0
        for each in self.chunks:
            if each.stream not in opened:
                opened.add(each.stream)
                yield from decoder.feed(Opened(each.stream, each.ts_ns, endpoints_of(each.stream), True))
            direction = 0 if each.sender is CLIENT else 1
            yield from decoder.feed(Data(each.stream, direction, each.ts_ns, each.data))
            last_ns = each.ts_ns
        for stream in self.streams:
            for direction in (0, 1):
                yield from decoder.feed(Closed(stream, direction, last_ns, StreamEnd.FIN))
