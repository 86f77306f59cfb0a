"""Encoding of entries as pcapng blocks: an interface for each leg, and a TCP connection on it for each session.

This module may be compiled.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from amqproxy.compiled import _cython as cython

import platform
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from amqproxy.capture.amqp091.frame_cuts import HAS_SECRET, FrameCutter, segments
from amqproxy.capture.cuts import Cuts
from amqproxy.capture.packet_comment import (
    comment_of,
    ended_comment,
    lost_comment,
    name_comment,
    session_comment,
    violation_comment,
)
from amqproxy.capture.packet_pieces import PacketPieces, Pieces
from amqproxy.capture.packet_snapshot import snapshot_options
from amqproxy.capture.pcapng_writer import (
    INBOUND,
    OUTBOUND,
    interface_description,
    interface_statistics,
    packet_options,
    section_header,
)
from amqproxy.capture.synthetic_tcp import CLIENT as CLIENT_END
from amqproxy.capture.synthetic_tcp import MAX_SEGMENT_BYTES, SyntheticTCP
from amqproxy.capture.synthetic_tcp import SERVER as SERVER_END
from amqproxy.peer import CLIENT, Peer
from amqproxy.recording.entry import (
    CLIENT_LEG,
    UPSTREAM_LEG,
    Ended,
    Entry,
    FileEnd,
    Lost,
    RecordedConnection,
    Snapshot,
    Violation,
)
from amqproxy.recording.leg_addresses import addresses_of
from amqproxy.taps.note import NOTHING

BOTH = "both"

ONCE = "once"
"""Both legs, but what is the same on both only on the client's; of a protocol that numbers its commands, all."""

LEAST_FRAME_BYTES = 8
"""Smallest frame in bytes: the gap left for each lost frame of unknown size."""

FRAME_HEAD = 7
"""Size of the frame header in bytes."""

_DESCRIPTIONS = {
    CLIENT_LEG: "amqproxy: what clients send to the proxy, and are sent by it",
    UPSTREAM_LEG: "amqproxy: what the proxy sends to the upstream, and is sent by it",
}
_PROTOCOL_HEADER = b"AMQP"
_TICK_NS = 4096
"""Clock unit from which initial sequence numbers are derived, as real TCP stacks do."""

_CLIENT_END = cython.declare(cython.int, CLIENT_END)
_SERVER_END = cython.declare(cython.int, SERVER_END)


@cython.final
@cython.cclass
class RecordingEncoder:
    """Encodes the files of one recording; each begins with `begin` and can be read on its own.

    `legs` is "client", "upstream", "both" or `ONCE`; of body frames' payload `body` bytes are kept, all if it is None.
    Sequence numbers continue from file to file, so that all files together can be read as one capture, too.
    """

    def __init__(self, legs: str = BOTH, body: int | None = None, filter: str = "") -> None:
        self._legs = (CLIENT_LEG, UPSTREAM_LEG) if legs in (BOTH, ONCE) else (legs,)
        self._is_once = legs == ONCE
        self._body = -1 if body is None else body
        self._filter = filter
        self._sessions: dict[RecordedConnection, _Session] = {}
        self._interfaces = {leg: _Interface(number) for number, leg in enumerate(self._legs)}
        self._file = 0
        self._packets_before = 0
        self._cutter = FrameCutter(MAX_SEGMENT_BYTES, self._body)
        self.made = PacketPieces()

    @property
    def packets(self) -> int:
        """Number of packets encoded so far, in all files."""
        return self._packets_before + sum(interface.packets for interface in self._interfaces.values())

    def begin(self, now_ns: int) -> bytes:
        """Return the section header and interface blocks of a new file."""
        self._packets_before = self.packets
        self._file += 1
        for interface in self._interfaces.values():
            interface.begin(now_ns)
        header = section_header(
            program=f"amqproxy {version('amqproxy')}",
            hardware=platform.machine(),
            system=f"{platform.system()} {platform.release()}",
        )
        described = [interface_description(leg, _DESCRIPTIONS[leg], filter=self._filter) for leg in self._legs]
        return header + b"".join(described)

    def encode(self, entry: Entry) -> Pieces:
        """Return the packets of one entry."""
        (cuts,) = self.find_cuts([entry])
        self.add(entry, cuts)
        return self.made.take()

    def find_cuts(self, entries: Sequence[Entry]) -> list[Cuts | None]:
        """Return where to cut the data of each entry into packets; other threads may run meanwhile."""
        return self._cutter.find([_frames_of(each) for each in entries])

    def add(self, entry: Entry, cuts: Cuts | None) -> None:
        """Append the packets of an entry to `made`, cut as `find_cuts` returned."""
        ts_ns, connection, sender, data, note, event = entry
        dialect = connection.dialect
        comments: tuple[str, ...] = ()
        if event is None:
            if not dialect.is_cut_in_groups:
                cuts = HAS_SECRET if sender is CLIENT else dialect.segments(data, MAX_SEGMENT_BYTES, self._body)
            if cuts is HAS_SECRET:
                without_secrets = dialect.masked(data)
                if without_secrets is not data:
                    data = without_secrets
                    session = self._session(connection)
                    session.has_login = True
                    if shown := dialect.connection_name(data):
                        session.shown_name = shown
                        comments = (name_comment(shown),)
                cuts = dialect.segments(data, MAX_SEGMENT_BYTES, self._body)
            if note is not NOTHING and not connection.is_shared and not data.startswith(_PROTOCOL_HEADER):
                comments = (*comments, comment_of(note))
        elif isinstance(event, Violation):
            data = dialect.masked_rubbish(dialect.masked(data))
            if sender is CLIENT and not self._session(connection).has_login:
                data = data[:FRAME_HEAD] + b"*" * (len(data) - FRAME_HEAD)
            cuts = segments(data, MAX_SEGMENT_BYTES, -1)
            comments = (violation_comment(str(sender), *event),)
        elif isinstance(event, Lost):
            if event.leg in self._interfaces:
                self._leg(entry, event.leg).lose(sender, event)
            return
        elif isinstance(event, Snapshot):
            if event.leg in self._interfaces:
                self._leg(entry, event.leg).snapshot = data
            return
        elif isinstance(event, FileEnd):
            return
        else:
            ended = self._sessions.pop(connection, None)
            for leg in ended.legs.values() if ended else ():
                leg.end(ts_ns, event.reason, self._file, self.made)
            return
        only = note.leg or (CLIENT_LEG if self._is_once and not dialect.numbers_commands else "")
        for name in self._legs:
            if not only or name == only:
                self._leg(entry, name).send(ts_ns, sender is CLIENT, data, comments, cuts, self._file, self.made)

    def lose(self, entry: Entry) -> None:
        """Count an entry that will not be written as lost; the next packet shows the gap."""
        if isinstance(entry.event, Ended):
            self._sessions.pop(entry.connection, None)
        elif isinstance(entry.event, Lost):
            self.encode(entry)
        elif entry.data and not isinstance(entry.event, Snapshot):
            lost = Lost("", entry.frames, len(entry.data))
            for name in self._legs:
                if entry.note.leg in ("", name):
                    self._leg(entry, name).lose(entry.sender, lost)

    def note_written(self) -> None:
        """Note that all encoded packets are on disk."""
        for interface in self._interfaces.values():
            interface.shown.clear()

    def note_unwritten(self, entries: list[Entry]) -> None:
        """Count encoded packets of these entries as lost after a write failure; the next packet shows the gap."""
        for interface in self._interfaces.values():
            for leg, end, frames, size in interface.shown:
                leg.note_lost(end, frames, size)
            interface.shown.clear()
        for entry in entries:
            session = self._sessions.get(entry.connection)
            if session is None or not entry.data or isinstance(entry.event, Snapshot):
                continue
            frames = entry.frames
            for name, leg in session.legs.items():
                if entry.note.leg in ("", name):
                    leg.note_lost(_end_of(entry.sender), frames, len(entry.data))
                    self._interfaces[name].dropped += frames

    def statistics(self, now_ns: int) -> bytes:
        """Return the statistics blocks that end a file: packets written, and frames missing from it or before it."""
        blocks = []
        for each in self._interfaces.values():
            received = each.packets + each.dropped
            blocks.append(
                interface_statistics(
                    each.number, now_ns, start_ns=each.start_ns, received=received, dropped=each.dropped
                )
            )
            each.dropped = 0
        return b"".join(blocks)

    @cython.cfunc
    def _leg(self, entry: Entry, name: str) -> _Leg:
        session = self._session(entry.connection)
        leg: _Leg | None = session.legs.get(name)
        if leg is None:
            leg = session.legs[name] = _Leg(name, entry, session, self._interfaces[name])
        return leg

    @cython.cfunc
    def _session(self, connection: RecordedConnection) -> _Session:
        session = self._sessions.get(connection)
        if session is None:
            session = self._sessions[connection] = _Session(has_login=connection.is_joined)
        return session


@cython.final
@cython.cclass
class _Interface:
    """Counters of one interface in one file, and the losses shown by packets that may still be unwritten."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.dropped = 0
        self.shown: list[tuple[_Leg, int, int, int]] = []
        self.begin(0)

    def begin(self, now_ns: int) -> None:
        self.packets = 0
        self.start_ns = now_ns


@cython.final
@cython.cclass
class _Session:
    """State of a session: its legs, and the name that its client gave the connection, "" if none.

    Once it `has_login`, its client is known to speak AMQP; before that, bytes that are not AMQP may be a login by
    another protocol.
    """

    def __init__(self, *, has_login: bool) -> None:
        self.has_login = has_login
        self.legs: dict[str, _Leg] = {}
        self.shown_name = ""


@cython.final
@cython.cclass
class _Leg:
    """One TCP connection of a session: its packets, and the losses that the next ones have to show.

    Its first packet in each file carries the session comment. `snapshot` is the state that its next data continues.
    """

    def __init__(self, name: str, entry: Entry, session: _Session, interface: _Interface) -> None:
        connection = entry.connection
        self._name = name
        self._session = session
        self._connection = connection
        self._interface = interface
        self._is_open = connection.is_joined
        self._file = 0
        self._flags = (INBOUND, OUTBOUND) if name == CLIENT_LEG else (OUTBOUND, INBOUND)
        self._options = tuple(map(packet_options, self._flags))
        self._lost: dict[int, tuple[int, int]] = {}
        self.snapshot = b""
        address = connection.name if name == CLIENT_LEG else connection.upstream_name
        client, server = addresses_of(address, connection.number, name)
        self._tcp = SyntheticTCP(client, server, entry.ts_ns // _TICK_NS + connection.number)

    @cython.cfunc
    def send(
        self,
        ts_ns: cython.ulonglong,
        is_client: cython.bint,
        data: bytes,
        comments: Any,
        cuts: Any,
        file: cython.int,
        made: PacketPieces,
    ) -> object:
        """Append the packets of data sent by one end; without `cuts` it is one packet."""
        if not self._is_open:
            self._open(ts_ns, file, made)
        tcp = self._tcp
        end: cython.int = _CLIENT_END if is_client else _SERVER_END
        options: bytes
        for start, kept, stop in cuts or ((0, len(data), len(data)),):
            options = self._options[end]
            if comments or self._lost or self._file != file:
                options = self._remarks(end, file, comments)
            if self.snapshot:
                options = snapshot_options(self.snapshot) + options
                self.snapshot = b""
            made.add_data(self._interface.number, ts_ns, tcp, end, data, start, kept, stop, options)
            self._interface.packets += 1
        if tcp._owes_acknowledgement(end):
            self._add(ts_ns, 1 - end, tcp.acknowledge(1 - end), file, made)
        return None

    def lose(self, sender: Peer, lost: Lost) -> None:
        """Skip the sequence numbers of lost frames, and note the loss on the next packet of that end."""
        self.note_lost(_end_of(sender), lost.frames, lost.size)
        self._interface.dropped += lost.frames
        self._tcp.skip(_end_of(sender), lost.size or lost.frames * LEAST_FRAME_BYTES)

    def note_lost(self, end: int, frames: int, size: int) -> None:
        """Note frames of one end as lost, whose sequence numbers are already used."""
        self.snapshot = b""  # the lost frames may have changed the state
        before = self._lost.get(end, (0, 0))
        self._lost[end] = before[0] + frames, before[1] + size

    def end(self, ts_ns: int, reason: str, file: int, made: PacketPieces) -> None:
        """Append the packets that close the connection, from the end that `reason` names."""
        if not self._is_open:
            self._open(ts_ns, file, made)
        by = _ended_by(reason, self._name)
        if "reset" in reason:
            for end in [*self._lost]:  # losses that the reset itself does not show
                self._add(ts_ns, 1 - end, self._tcp.acknowledge(1 - end), file, made)
            packets = self._tcp.reset(by)
        else:
            packets = self._tcp.close(by)
        comments: tuple[str, ...] = (ended_comment(reason),)
        for end, header in packets:
            self._add(ts_ns, end, header, file, made, comments)
            comments = ()

    def _open(self, ts_ns: int, file: int, made: PacketPieces) -> None:
        self._is_open = True
        for end, header in self._tcp.handshake():
            self._add(ts_ns, end, header, file, made)

    def _add(
        self, ts_ns: int, end: int, header: bytes, file: int, made: PacketPieces, comments: tuple[str, ...] = ()
    ) -> None:
        """Append a packet without data."""
        made.add(self._interface.number, ts_ns, header, self._remarks(end, file, comments))
        self._interface.packets += 1

    def _remarks(self, end: int, file: int, comments: tuple[str, ...]) -> bytes:
        """Return the options of a packet: its comments, and the losses before it."""
        dropped = 0
        if end in self._lost:
            dropped, size = self._lost.pop(end)
            self._interface.shown.append((self, end, dropped, size))
            comments = (lost_comment(dropped, size), *comments)
        if self._file != file:
            self._file = file
            comments = (self._introduction(), *comments)
        return packet_options(self._flags[end], comments, dropped)

    def _introduction(self) -> str:
        connection = self._connection
        return session_comment(
            connection.number,
            self._name,
            f"{self._tcp.client}-{self._tcp.server}",
            session=connection.name,
            is_tls=connection.is_tls and self._name == CLIENT_LEG,
            shown_name=self._session.shown_name,
            protocol=connection.dialect.name,
        )


def _frames_of(entry: Entry) -> bytes:
    """Return the data of an entry if a `FrameCutter` has to cut it."""
    if isinstance(entry.event, Snapshot) or not entry.connection.dialect.is_cut_in_groups:
        return b""
    return entry.data


def _end_of(sender: Peer) -> int:
    return CLIENT_END if sender is CLIENT else SERVER_END


def _ended_by(reason: str, leg: str) -> int:
    """Return the end of a leg that closes first: that of the peer that ended the session, otherwise the proxy's."""
    first = reason.partition(" ")[0]
    if first == "client":
        return CLIENT_END
    if first in ("server", "upstream"):
        return SERVER_END
    return SERVER_END if leg == CLIENT_LEG else CLIENT_END
