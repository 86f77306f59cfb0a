"""Live traffic of a replay: a log in memory, which can be decoded or written as a capture, and a store of commands."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address

import msgspec

from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.capture.decode import Decoder
from amqproxy.capture.decoded import Decoded
from amqproxy.capture.endpoints import Endpoint
from amqproxy.capture.stream_events import Closed, Data, Opened, StreamEnd
from amqproxy.comparison.command_store import CommandStore

MAX_BYTES = 256 * 1024 * 1024
"""Size limit of a log in bytes; later traffic is not logged."""

CLIENT_ADDRESS, SERVER_ADDRESS = IPv4Address("127.0.0.1"), IPv4Address("127.0.0.1")
SERVER_PORT = 5672
FIRST_CLIENT_PORT = 40000


def endpoints_of(stream: int) -> tuple[Endpoint, Endpoint]:
    """Return the endpoints of a live connection, the client's first: synthetic ones, the same in each replay."""
    port = FIRST_CLIENT_PORT + stream % (65536 - FIRST_CLIENT_PORT)
    return Endpoint(CLIENT_ADDRESS.packed, port), Endpoint(SERVER_ADDRESS.packed, SERVER_PORT)


class LiveDecoder:
    """Decoder of live traffic, as a capture of it would decode.

    Connections keep their recorded numbers, and get synthetic addresses derived from these: so the connections of two
    replays of one recording correspond.
    """

    def __init__(self) -> None:
        self._decoder = Decoder()
        self._streams: dict[int, None] = {}
        self._last_ns = 0

    def feed(self, stream: int, sender: Peer, data: bytes, ts_ns: int) -> Iterator[Decoded]:
        """Yield what these bytes of a connection complete."""
        self._last_ns = ts_ns
        if stream not in self._streams:
            self._streams[stream] = None
            yield from self._decoder.feed(Opened(stream, ts_ns, endpoints_of(stream), True))
        yield from self._decoder.feed(Data(stream, 0 if sender is CLIENT else 1, ts_ns, data))

    def end(self) -> Iterator[Decoded]:
        """End all connections."""
        for stream in self._streams:
            for direction in (0, 1):
                yield from self._decoder.feed(Closed(stream, direction, self._last_ns, StreamEnd.FIN))


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

    def decoded(self) -> Iterator[Decoded]:
        """Yield the traffic as a capture of it would decode."""
        decoder = LiveDecoder()
        for each in self.chunks:
            yield from decoder.feed(each.stream, each.sender, each.data, each.ts_ns)
        yield from decoder.end()


class TrafficStore:
    """Decoder of live traffic into `store`, as with `TrafficLog`, for comparison with another."""

    def __init__(self, store: CommandStore, epoch_ns: int) -> None:
        self._store = store
        self._epoch_ns = epoch_ns
        self._decoder = LiveDecoder()

    def note(self, stream: int, sender: Peer, data: bytes, now: float) -> None:
        """Store sent bytes, as a `Watch`."""
        for decoded in self._decoder.feed(stream, sender, data, self._epoch_ns + int(now * 1e9)):
            self._store.add(decoded)

    def finish(self) -> None:
        """End all connections, and finish the store, which can be read after this."""
        for decoded in self._decoder.end():
            self._store.add(decoded)
        self._store.finish()
