"""Decodes the capture files of a chain in order, and notes unreadable parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from amqproxy.capture.decode import CaptureReading
from amqproxy.capture.decoded import Decoded, StreamEnded
from amqproxy.capture.files import CaptureFile, name_of
from amqproxy.capture.packet_comment import session_of
from amqproxy.capture.pcap import Packet
from amqproxy.capture.second_engine import SecondEngine
from amqproxy.capture.share import Share
from amqproxy.capture.warnings import CaptureError, CaptureWarning, OnWarning, WarningKind
from amqproxy.pipeline.trace_state import dumped, loaded, written_by

_ID_BYTES = 8


class LostPart(msgspec.Struct, frozen=True):
    """An unreadable part of a file, at `offset` if it is at one place; `ts_ns` is the time of the last packet before.

    `kind` is "file" if the rest of the file was not read, "clock" for a time without packets, or in which the clock was
    set, of `length_ns` before `ts_ns`, else the kind of a `CaptureWarning`.
    """

    file: str | None
    kind: str
    text: str
    offset: int | None
    ts_ns: int | None
    length_ns: int | None = None


GAP_NS = 7 * 86_400_000_000_000
"""Time between two packets of a chain from which it counts as not recorded, or as a jump of the clock."""

BACK_NS = 3600 * 1_000_000_000
"""Time by which the clock has gone back within a file from which it is reported."""

MAX_JUMPS = 100
"""Maximum number of reported jumps of a chain's clock in one run."""


class ChainReading:
    """Decodes the files of `chain` with the options of a `CaptureReading`; `engine_of` makes its second engine.

    During decoding, `file` is the file of the last packet. `lost` are the unreadable parts; reading continues with the
    next file. Only the first share notes them.
    """

    def __init__(
        self,
        chain: str,
        *,
        leg: str = "client",
        engine_of: Callable[[OnWarning], SecondEngine] | None = None,
        share: Share | None = None,
    ) -> None:
        self.chain = chain
        self.file: str | None = None
        self.lost: list[LostPart] = []
        self._is_first_share = share is None or share.number == 0
        self._ids: dict[int, str] = {}
        self._ended: list[int] = []
        self._latest_ns = 0
        self._watches_packets = share is not None and share.number == 0  # it has the items of some connections only
        self._jumps_left = MAX_JUMPS if self._is_first_share else 0
        warn = self._warn
        engine = None if engine_of is None else engine_of(warn)
        self._reading = CaptureReading(chain, warn, leg=leg, engine=engine, share=share)
        self._outer = {"warn": warn, "share": share} if share is not None else {"warn": warn}
        self.written_by = written_by("0/1" if share is None else f"{share.number}/{share.shares}")
        """Prefix of the state of this reading and of everything made of it."""

    def decoded(self, files: Sequence[CaptureFile], *, is_end: bool = True) -> Iterator[Decoded]:
        """Yield the items that the packets of the next files complete, and those completed by the end of the chain."""
        reading, ids = self._reading, self._ids
        for file in files:
            self.file = name_of(file.source)
            is_first = True
            watched: Any = _WatchedFile(file, self._pass) if self._watches_packets else file
            try:
                for each in reading.decoded(watched):
                    if not self._watches_packets:
                        self._pass(reading.last_ns, is_first)
                        is_first = False
                    if each.stream not in ids:
                        self._begin(each)
                    elif isinstance(each, StreamEnded):
                        self._ended.append(each.stream)
                    yield each
            except CaptureError as error:
                self._note("file", f"{error.reason}: {error.remedy}", error.offset)
        if is_end:
            for each in reading.finish():
                if each.stream not in ids:
                    self._begin(each)
                yield each

    def state(self) -> bytes:
        """Return the state from which another run continues with the next files."""
        self.forget_ended()
        return dumped((self._reading, self._ids, self._latest_ns), self.written_by, self._outer)

    def resume(self, state: bytes) -> None:
        """Continue from the state of another reading of the chain; raise `Unreadable`."""
        self._reading, self._ids, self._latest_ns = loaded(state, self.written_by, self._outer)

    def connection_id(self, stream: int) -> str:
        """Return the identifier of a connection, 16 hex digits.

        It is derived from the chain, the leg, the endpoints and the time of the first packet; in a recording, any file
        of which may be read first, from the session number instead of the time.
        """
        return self._ids[stream]

    def forget_ended(self) -> None:
        """Forget the identifiers of ended connections."""
        for stream in self._ended:
            self._ids.pop(stream, None)
        self._ended.clear()

    def take_lost(self) -> list[LostPart]:
        """Return the parts found unreadable since the last call."""
        lost = self.lost
        if lost:
            self.lost = []
        return lost

    def _begin(self, decoded: Decoded) -> None:
        opened = self._reading.opened(decoded.stream)
        began: tuple[str, int] = ("time", decoded.ts_ns if opened is None else opened.ts_ns)
        session = None if opened is None else session_of(opened.comments)
        if session is not None:
            began = ("session", session)
        identity = msgspec.msgpack.encode((self.chain, decoded.leg, decoded.connection, *began))
        self._ids[decoded.stream] = blake2b(identity, digest_size=_ID_BYTES).hexdigest()

    def note_state(self, why: str) -> None:
        """Note that the state of another run cannot be used."""
        self._note("state", f"what an earlier run carried over is not read, so that connections are joined: {why}", -1)

    def _pass(self, now_ns: int, is_first: bool) -> None:
        """Note a time without packets, or a jump of the clock, before a packet; a file's first may be older."""
        before_ns, self._latest_ns = self._latest_ns, now_ns
        passed_ns = now_ns - before_ns
        if -BACK_NS <= passed_ns <= GAP_NS:
            return
        if not before_ns or not self._jumps_left or (passed_ns < 0 and is_first):
            return
        self._jumps_left -= 1
        if passed_ns < 0:
            text = f"the clock went back by {_length(-passed_ns)}, from {_utc(before_ns)} to {_utc(now_ns)}"
        else:
            text = f"nothing was recorded for {_length(passed_ns)}, or the clock jumped: from {_utc(before_ns)} to "
            text += _utc(now_ns)
        self.lost.append(LostPart(self.file, "clock", text, None, now_ns, passed_ns))

    def _warn(self, warning: CaptureWarning) -> None:
        if warning.kind is not WarningKind.IGNORED:
            self._note(str(warning.kind), warning.text, warning.offset)

    def _note(self, kind: str, text: str, offset: int) -> None:
        if self._is_first_share:
            ts_ns = self._reading.last_ns or _written_ns(self.file)
            self.lost.append(LostPart(self.file, kind, text, offset if offset >= 0 else None, ts_ns))


class _WatchedFile:
    """A capture file that tells the time of each packet, and whether it is the first, before it is decoded."""

    def __init__(self, file: CaptureFile, tell: Callable[[int, bool], None]) -> None:
        self._file = file
        self._tell = tell

    def packets(self, *given: Any) -> Iterator[Packet]:
        is_first = True
        for packet in self._file.packets(*given):
            self._tell(packet.ts_ns, is_first)
            is_first = False
            yield packet


def _length(ns: int) -> str:
    """Return a duration in days, or in hours below two days."""
    days = ns / 86_400_000_000_000
    return f"{days:,.0f} days" if days >= 2 else f"{days * 24:.1f} hours"


def _utc(ns: int) -> str:
    """Return a time in seconds since 1970 as text."""
    try:
        return f"{datetime.fromtimestamp(ns // 1_000_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):  # beyond the year 9999
        return f"{ns // 1_000_000_000} s"


def _written_ns(file: str | None) -> int | None:
    """Return the modification time of a file, used if no packet has a time."""
    try:
        return None if file is None else Path(file).stat().st_mtime_ns
    except OSError:
        return None
