"""Encoding of entries as pcapng blocks: an interface for each leg, and a TCP connection on it for each session."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import version

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import OVERHEAD, Frame
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.capture.amqp010.frame_cuts import frame_bounds
from amqproxy.capture.amqp010.frame_cuts import segments as amqp010_segments
from amqproxy.capture.amqp010.secrets import masked as amqp010_masked
from amqproxy.capture.amqp010.secrets import masked_rubbish as amqp010_masked_rubbish
from amqproxy.capture.amqp091.frame_cuts import HAS_SECRET, FrameCutter, secret_frame, segments
from amqproxy.capture.amqp091.secrets import masked, masked_rubbish
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
from amqproxy.recording.entry import CLIENT_LEG, UPSTREAM_LEG, Ended, Entry, Lost, RecordedConnection, Violation
from amqproxy.recording.leg_addresses import addresses_of
from amqproxy.taps.note import NOTHING

BOTH = "both"
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


class RecordingEncoder:
    """Encodes the files of one recording; each begins with `begin` and can be read on its own.

    `legs` is "client", "upstream" or "both"; of body frames' payload `body` bytes are kept, all if it is None. Sequence
    numbers continue from file to file, so that all files together can be read as one capture, too.
    """

    def __init__(self, legs: str = BOTH, body: int | None = None, filter: str = "") -> None:
        self._legs = (CLIENT_LEG, UPSTREAM_LEG) if legs == BOTH else (legs,)
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
        return self._cutter.find([b"" if entry.connection.is_amqp010 else entry.data for entry in entries])

    def add(self, entry: Entry, cuts: Cuts | None) -> None:
        """Append the packets of an entry to `made`, cut as `find_cuts` returned."""
        ts_ns, connection, sender, data, note, event = entry
        if cuts is None and event is None and note is NOTHING and not connection.is_amqp010:
            session = self._sessions.get(connection)
            if session is not None and len(session.legs) == len(self._legs):  # most entries are one packet on each leg
                size = len(data)
                whole = ((0, size, size),)
                for leg in session.legs.values():
                    leg.send(ts_ns, sender, data, (), whole, self._file, self.made)
                return
        comments: tuple[str, ...] = ()
        if event is None and connection.is_amqp010:
            without_secrets = amqp010_masked(data) if sender is CLIENT else data
            if without_secrets is not data:
                data = without_secrets
                self._session(connection).has_login = True
            cuts = amqp010_segments(data, MAX_SEGMENT_BYTES, self._body)
            if note is not NOTHING and not data.startswith(_PROTOCOL_HEADER):
                comments = (comment_of(note),)
        elif event is None:
            if cuts is HAS_SECRET:
                data = masked(data)
                cuts = segments(data, MAX_SEGMENT_BYTES, self._body)
                session = self._session(connection)
                session.has_login = True
                if shown := _shown_name(data):
                    session.shown_name = shown
                    comments = (name_comment(shown),)
            if note is not NOTHING and not data.startswith(_PROTOCOL_HEADER):
                comments = (*comments, comment_of(note))
        elif isinstance(event, Violation):
            if connection.is_amqp010:
                data = amqp010_masked_rubbish(amqp010_masked(data))
            else:
                data = masked_rubbish(masked(data))
            if sender is CLIENT and not self._session(connection).has_login:
                data = data[:FRAME_HEAD] + b"*" * (len(data) - FRAME_HEAD)
            cuts = segments(data, MAX_SEGMENT_BYTES, -1)
            comments = (violation_comment(str(sender), *event),)
        elif isinstance(event, Lost):
            if event.leg in self._interfaces:
                self._leg(entry, event.leg).lose(sender, event)
            return
        else:
            ended = self._sessions.pop(connection, None)
            for leg in ended.legs.values() if ended else ():
                leg.end(ts_ns, event.reason, self._file, self.made)
            return
        for name in (note.leg,) if note.leg else self._legs:
            if name in self._interfaces:
                leg = self._leg(entry, name)
                leg.send(ts_ns, sender, data, comments, cuts or ((0, len(data), len(data)),), self._file, self.made)

    def lose(self, entry: Entry) -> None:
        """Count an entry that will not be written as lost; the next packet shows the gap."""
        if isinstance(entry.event, Ended):
            self._sessions.pop(entry.connection, None)
        elif isinstance(entry.event, Lost):
            self.encode(entry)
        elif entry.data:
            lost = Lost("", _frames_in(entry), len(entry.data))
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
            if session is None or not entry.data:
                continue
            frames = _frames_in(entry)
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

    def _leg(self, entry: Entry, name: str) -> _Leg:
        session = self._session(entry.connection)
        leg = session.legs.get(name)
        if leg is None:
            leg = session.legs[name] = _Leg(name, entry, session, self._interfaces[name])
        return leg

    def _session(self, connection: RecordedConnection) -> _Session:
        session = self._sessions.get(connection)
        if session is None:
            session = self._sessions[connection] = _Session(has_login=connection.is_joined)
        return session


class _Interface:
    """Counters of one interface in one file, and the losses shown by packets that may still be unwritten."""

    __slots__ = ("dropped", "number", "packets", "shown", "start_ns")

    def __init__(self, number: int) -> None:
        self.number = number
        self.dropped = 0
        self.shown: list[tuple[_Leg, int, int, int]] = []
        self.begin(0)

    def begin(self, now_ns: int) -> None:
        self.packets = 0
        self.start_ns = now_ns


class _Session:
    """State of a session: its legs, and the name that its client gave the connection, "" if none.

    Once it `has_login`, its client is known to speak AMQP; before that, bytes that are not AMQP may be a login by
    another protocol.
    """

    __slots__ = ("has_login", "legs", "shown_name")

    def __init__(self, *, has_login: bool) -> None:
        self.has_login = has_login
        self.legs: dict[str, _Leg] = {}
        self.shown_name = ""


class _Leg:
    """One TCP connection of a session: its packets, and the losses that the next ones have to show.

    Its first packet in each file carries the session comment.
    """

    __slots__ = (
        "_connection",
        "_file",
        "_flags",
        "_interface",
        "_is_open",
        "_lost",
        "_name",
        "_options",
        "_session",
        "_tcp",
    )

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
        address = connection.name if name == CLIENT_LEG else connection.upstream_name
        client, server = addresses_of(address, connection.number, name)
        self._tcp = SyntheticTCP(client, server, entry.ts_ns // _TICK_NS + connection.number)

    def send(
        self,
        ts_ns: int,
        sender: Peer,
        data: bytes,
        comments: tuple[str, ...],
        cuts: Sequence[tuple[int, int, int]],
        file: int,
        made: PacketPieces,
    ) -> None:
        """Append the packets of data sent by one end."""
        if not self._is_open:
            self._open(ts_ns, file, made)
        tcp = self._tcp
        interface = self._interface
        end = CLIENT_END if sender is CLIENT else SERVER_END
        for start, kept, stop in cuts:
            options = self._options[end]
            if comments or self._lost or self._file != file:
                options = self._remarks(end, file, comments)
            made.add_data(interface.number, ts_ns, tcp, end, data, start, kept, stop, options)
        interface.packets += len(cuts)
        header = tcp.acknowledgement(end)
        if header:
            self._add(ts_ns, 1 - end, header, file, made)

    def lose(self, sender: Peer, lost: Lost) -> None:
        """Skip the sequence numbers of lost frames, and note the loss on the next packet of that end."""
        self.note_lost(_end_of(sender), lost.frames, lost.size)
        self._interface.dropped += lost.frames
        self._tcp.skip(_end_of(sender), lost.size or lost.frames * LEAST_FRAME_BYTES)

    def note_lost(self, end: int, frames: int, size: int) -> None:
        """Note frames of one end as lost, whose sequence numbers are already used."""
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
            is_amqp010=connection.is_amqp010,
        )


def _end_of(sender: Peer) -> int:
    return CLIENT_END if sender is CLIENT else SERVER_END


def _shown_name(data: bytes) -> str:
    """Return the connection name from the start-ok among these frames; "" if the client gives none."""
    at = secret_frame(data, 0)
    frame = Frame(data[at : at + OVERHEAD + int.from_bytes(data[at + 3 : at + 7])])
    try:
        name = frame.method.client_properties["connection_name"]
    except (ProtocolError, AttributeError, KeyError):  # another method with a secret, for example
        return ""
    return name if isinstance(name, str) else ""


def _ended_by(reason: str, leg: str) -> int:
    """Return the end of a leg that closes first: that of the peer that ended the session, otherwise the proxy's."""
    first = reason.partition(" ")[0]
    if first == "client":
        return CLIENT_END
    if first in ("server", "upstream"):
        return SERVER_END
    return SERVER_END if leg == CLIENT_LEG else CLIENT_END


def _frames_in(entry: Entry) -> int:
    """Return the approximate number of frames in an entry, at least one."""
    data = entry.data
    if entry.connection.is_amqp010:
        return sum(1 for _ in frame_bounds(data)) or 1
    count = position = 0
    while position + 7 <= len(data):
        position += 8 + int.from_bytes(data[position + 3 : position + 7])
        count += 1
    return count or 1
