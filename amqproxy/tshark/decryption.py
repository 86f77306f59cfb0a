"""Decryption of TLS streams by tshark, with the secrets of the capture or of a key log."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from struct import pack
from types import TracebackType

import msgspec

from amqproxy.capture.stream_events import Closed, Data, Event, Gap
from amqproxy.tshark.engine import pipe_command
from amqproxy.tshark.packet_pipe import PacketPipe

MAX_WAITING_EVENTS = 4096
"""Events that may wait for tshark, including those queued behind such events."""
MAX_WAITING_BYTES = 32 * 1024 * 1024
"""Bytes that may wait for tshark."""
MAX_UNDECIDED_BYTES = 64 * 1024
"""TLS bytes of a stream after which it is treated as undecryptable, if none of it was decrypted."""
LIVE_PATIENCE = 0.2
"""Seconds that live data may take to be decrypted before later events are examined."""

_PORT = 5671
_PIECE_BYTES = 32 * 1024
_HANDSHAKE = b"\x16\x03"
_IPV4 = b"\x02\0\0\0\0\2\x02\0\0\0\0\1\x08\0"


class TLSDecryption:
    """Replaces the data of TLS streams with their plaintext; other streams pass unchanged, in the same order.

    It runs from the first secrets on: those of the file `keylog`, or those passed to `add_secrets`. Only streams whose
    first bytes come after that are decrypted. tshark receives the streams reassembled, so that it does not matter how
    they were captured. A stream without secrets passes unchanged.
    """

    def __init__(self, keylog: Path | None = None, *, is_live: bool = False) -> None:
        self._keylog = keylog
        self._stack = ExitStack()
        self._pipe: PacketPipe | None = None
        self._is_live = is_live
        self._streams: dict[int, _TLSStream | None] = {}
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0
        if keylog is not None:
            self._start()

    def __enter__(self) -> TLSDecryption:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def is_active(self) -> bool:
        """Whether there are any secrets."""
        return self._pipe is not None

    def add_secrets(self, key_log: bytes) -> None:
        """Add secrets found in the capture, in the format of SSLKEYLOGFILE."""
        if self._pipe is None:
            self._start()
        assert self._pipe is not None
        self._pipe.send_secrets(key_log)

    def feed(self, events: Iterable[Event]) -> Iterator[Event]:
        """Add events of TCP streams, and yield those that are ready, in order."""
        if self._pipe is None:
            yield from events
            return
        for event in events:
            self._take(event)
        patience = LIVE_PATIENCE if self._is_live else 0.0
        while self._waiting:
            is_full = len(self._waiting) > MAX_WAITING_EVENTS or self._waiting_bytes > MAX_WAITING_BYTES
            if not self._is_ready(self._waiting[0], None if is_full else patience):
                return
            yield from self._release()

    def finish(self) -> Iterator[Event]:
        """Yield the remaining events at the end of the capture."""
        if self._pipe is not None:
            self._pipe.finish()
        while self._waiting:
            self._is_ready(self._waiting[0], None)
            yield from self._release()

    def _start(self) -> None:
        preferences = {} if self._keylog is None else {"tls.keylog_file": str(self._keylog)}
        command = pipe_command(
            ["-T", "fields", "-e", "data.data"],
            preferences=preferences,
            decode_as={f"tcp.port=={_PORT}": "tls", f"tls.port=={_PORT}": "data"},
        )
        self._pipe = self._stack.enter_context(PacketPipe(command))

    def _take(self, event: Event) -> None:
        waiting = _Waiting(event)
        if isinstance(event, Data):
            self._waiting_bytes += len(event.data)
            stream = self._stream_of(event)
            if stream is not None:
                waiting.rows = self._send(stream, event)
                waiting.is_tls = True
        elif isinstance(event, Gap):
            stream = self._streams.get(event.stream)
            if stream is not None:
                stream.sent[event.direction] += event.lost
        self._waiting.append(waiting)

    def _stream_of(self, event: Data) -> _TLSStream | None:
        """Return the stream of an event if it is TLS."""
        if event.stream not in self._streams:
            is_tls = event.data.startswith(_HANDSHAKE)
            self._streams[event.stream] = _TLSStream(event.stream) if is_tls else None
        return self._streams[event.stream]

    def _send(self, stream: _TLSStream, event: Data) -> int:
        """Send data of a stream to tshark, and return the number of packets used."""
        assert self._pipe is not None
        count = 0
        for at in range(0, len(event.data), _PIECE_BYTES):
            packet = stream.packet(event.direction, event.data[at : at + _PIECE_BYTES])
            self._pipe.send(event.ts_ns, packet)
            count += 1
        return count

    def _is_ready(self, waiting: _Waiting, seconds: float | None) -> bool:
        """Collect the rows that an event waits for; return whether all have arrived in time."""
        while waiting.rows:
            assert self._pipe is not None
            row = self._pipe.row(seconds)
            if row is None:
                return False
            waiting.rows -= 1
            waiting.plain += bytes.fromhex(row[0].replace(",", ""))
        return True

    def _release(self) -> Iterator[Event]:
        """Yield the result of the first waiting event, which is ready."""
        waiting = self._waiting.popleft()
        event = waiting.event
        stream = self._streams.get(event.stream)
        if isinstance(event, Data):
            self._waiting_bytes -= len(event.data)
        if isinstance(event, Data) and waiting.is_tls and stream is not None:
            yield from stream.decrypted(event, bytes(waiting.plain))
        elif isinstance(event, Gap | Closed) and stream is not None:
            yield from stream.interrupted(event)
        else:
            yield event
        if isinstance(event, Closed) and (stream is None or stream.is_over):
            self._streams.pop(event.stream, None)


class _Waiting(msgspec.Struct):
    """An event, the number of rows it waits for, and the plaintext of those received."""

    event: Event
    is_tls: bool = False
    rows: int = 0
    plain: bytearray = msgspec.field(default_factory=bytearray)


class _TLSStream:
    """A TLS stream: its packets for tshark, and its decrypted events."""

    def __init__(self, number: int) -> None:
        self.sent = [1, 1]
        """The next sequence number of each direction."""
        self._address = number & 0xFFFFFF
        self._port = 1024 + (number >> 24 & 0x7FFF)
        self._is_decrypted = False
        self._undecided: list[Data] = []
        self._undecided_bytes = 0
        self._is_given_up = False
        self._behind = [0, 0]
        """Bytes of each direction received since something was decrypted."""
        self._has_gap = [False, False]
        self._lasting = 2

    @property
    def is_over(self) -> bool:
        return self._lasting <= 0

    def packet(self, direction: int, data: bytes) -> bytes:
        """Return an Ethernet packet with the next bytes of a direction."""
        ports, ends = (self._port, _PORT), (pack(">I", 10 << 24 | self._address), b"\x0b\0\0\1")
        if direction:
            ports, ends = ports[::-1], ends[::-1]
        sequence, acknowledged = self.sent[direction] & 0xFFFFFFFF, self.sent[1 - direction] & 0xFFFFFFFF
        self.sent[direction] += len(data)
        tcp = pack(">HHIIHHHH", *ports, sequence, acknowledged, 5 << 12 | 24, 0xFFFF, 0, 0)
        ip = pack(">BBHHHBBH", 0x45, 0, 40 + len(data), 0, 0x4000, 64, 6, 0) + ends[0] + ends[1]
        return _IPV4 + ip + tcp + data

    def decrypted(self, event: Data, plain: bytes) -> Iterator[Event]:
        """Yield the plaintext of an event that tshark has processed."""
        if self._is_given_up:
            yield event
            return
        self._behind[event.direction] += len(event.data)
        if plain:
            self._is_decrypted = True
            self._undecided = []
            self._behind[event.direction] = 0
            yield Data(event.stream, event.direction, event.ts_ns, plain, event.comments)
        elif not self._is_decrypted:
            self._undecided.append(event)
            self._undecided_bytes += len(event.data)
            if self._undecided_bytes > MAX_UNDECIDED_BYTES:
                yield from self._give_up()

    def interrupted(self, event: Gap | Closed) -> Iterator[Event]:
        """Handle a gap in a direction, or its end: nothing after a gap can be decrypted."""
        if not self._is_decrypted and not self._is_given_up:
            yield from self._give_up()
        if isinstance(event, Gap):
            self._has_gap[event.direction] = True
        else:
            self._lasting -= 1
            lost = self._behind[event.direction]
            if lost and self._has_gap[event.direction] and not self._is_given_up:
                yield Gap(event.stream, event.direction, event.ts_ns, lost)
        yield event

    def _give_up(self) -> Iterator[Event]:
        """Treat the stream as TLS without secrets, and yield its events unchanged."""
        self._is_given_up = True
        undecided, self._undecided = self._undecided, []
        yield from undecided
