"""Comparison of a capture decoded by both engines, frame by frame."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from amqproxy.amqp091.protocol_header import HEADER, NAME
from amqproxy.capture.byte_window import OnRead, ignore_read
from amqproxy.capture.decode import BOTH_LEGS, read_decoded
from amqproxy.capture.decoded import Decoded, DecodedFrames, DecodedProtocolHeader, SkippedBytes, StreamEnded
from amqproxy.capture.pcap import Packet
from amqproxy.capture.stream_events import Closed, Data, Event
from amqproxy.capture.unreadable_bytes import JOINED, MISSING
from amqproxy.capture.warnings import OnWarning, ignore_warning
from amqproxy.taps.text import printable
from amqproxy.tshark import known_faults
from amqproxy.tshark.dialects import COMPARED
from amqproxy.tshark.dissected_frame import DissectedFrame
from amqproxy.tshark.dissection import dissected

WINDOW = 64
"""Frames per direction that are searched for the next one that both engines have."""
MAX_WAITING_FRAMES = 100_000
"""Frames of one engine that the other has not reached; beyond it the oldest are reported as missing there."""
HEAD_BYTES = 8
"""First segments of fewer bytes are tiny: they cannot hold a protocol header, and barely a frame header."""

Direction = tuple[int, str]


class Difference(msgspec.Struct, frozen=True, omit_defaults=True, rename={"sender": "from"}):
    """A difference between the engines: a frame that only one of them has, or a field of a frame.

    An absent frame or value is None. `known` names the fault of tshark that explains the difference, if there is one;
    `packet` is tshark's packet number.
    """

    file: str
    stream: int
    sender: str
    ours: str | None
    tshark: str | None
    frame: str | None = None
    field: str | None = None
    packet: int | None = None
    known: str | None = None

    def __str__(self) -> str:
        arrow = "→" if self.sender == "client" else "←"
        packet = f" packet {self.packet}" if self.packet else ""
        known = f"  (known: {self.known})" if self.known else ""
        if self.frame is not None:
            field = f" {self.field}:" if self.field else ""
            what = f"{self.frame}:{field} we have {self.ours}, tshark has {self.tshark}"
        else:
            what = f"only we have {self.ours}" if self.tshark is None else f"only tshark has {self.tshark}"
        return printable(f"{self.file} #{self.stream} {arrow}{packet}: {what}") + known


class Counts(msgspec.Struct):
    """Numbers of frames `compared`, and of frames not compared because of a gap before them.

    Connections of `other_protocols` than those in `COMPARED` are not compared at all.
    """

    compared: int = 0
    not_compared: int = 0
    differences: int = 0
    known: int = 0
    other_protocols: int = 0

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__struct_fields__}

    def __str__(self) -> str:
        text = f"{self.compared} frames compared, {self.differences} differences"
        known = f", {self.known} by known faults of tshark" if self.known else ""
        behind = f", {self.not_compared} frames not compared behind holes" if self.not_compared else ""
        others = ""
        if self.other_protocols:
            many = f"{self.other_protocols} connection{'s' * (self.other_protocols > 1)}"
            others = f", {many} of other protocols than {' and '.join(COMPARED)} not compared"
        return text + known + behind + others


def verified(
    file: str,
    counts: Counts,
    notify: OnWarning = ignore_warning,
    on_read: OnRead = ignore_read,
    *,
    name: str = "",
) -> Iterator[Difference]:
    """Yield every difference between amqproxy's and tshark's decoding of a capture file, as they are found.

    Each engine reads the file on its own, after amqproxy has read it once to find the ports that speak AMQP. `name` is
    the name of the file in the differences.
    """
    survey = _Survey()
    ports: set[int] = set()
    others: set[int] = set()
    for each in read_decoded(file, notify, leg=BOTH_LEGS, engine=survey):
        ports.add(int(each.connection.rpartition(":")[2]))
        if (
            isinstance(each, DecodedProtocolHeader | SkippedBytes)
            and each.sender == "client"
            and each.protocol not in COMPARED
        ):
            others.add(each.stream)
    counts.other_protocols = len(others)
    if not ports:
        return
    comparison = _Comparison(name or file, survey.tiny)
    ours = read_decoded(file, ignore_warning, on_read, leg=BOTH_LEGS)
    for difference in comparison.run(ours, dissected(file, ports)):
        counts.differences += difference.known is None
        counts.known += difference.known is not None
        yield difference
    counts.compared += comparison.compared
    counts.not_compared += comparison.not_compared


class _Survey:
    """A `SecondEngine` that only observes: the streams whose first segment is tiny."""

    is_decrypting = True

    def __init__(self) -> None:
        self.tiny: set[int] = set()
        self._seen: set[tuple[int, int]] = set()

    def packets(self, packets: Iterator[Packet]) -> Iterator[Packet]:
        return packets

    def add_secrets(self, key_log: bytes) -> None:
        pass

    def feed(self, events: Iterable[Event]) -> Iterable[Event]:
        for event in events:
            if isinstance(event, Data) and (event.stream, event.direction) not in self._seen:
                self._seen.add((event.stream, event.direction))
                if len(event.data) < HEAD_BYTES:
                    self.tiny.add(event.stream)
            elif isinstance(event, Closed):
                self._seen.discard((event.stream, event.direction))
        return events

    def finish(self) -> Iterable[Event]:
        return []


class _Own(msgspec.Struct, frozen=True):
    """An item of amqproxy's decoding: a frame, a protocol header, or an error in place of frames.

    `shape` is the minimum in which tshark must agree for the two to be the same item.
    """

    type: str
    text: str
    shape: object
    frame: Any = None
    protocol: str = ""

    def __str__(self) -> str:
        return self.text


def _own_frame(protocol: str, frame: Any) -> _Own:
    """Return the item of a frame."""
    shape = COMPARED[protocol].shape_of(frame)
    text = f"{shape.name or shape.type} on channel {frame.channel}, {frame.size} bytes"
    place = (protocol, shape.type, frame.channel, frame.size, shape.flags, shape.method)
    return _Own(shape.type, text, place, frame, protocol)


def _other(type: str, text: str) -> _Own:
    return _Own(type, text, type)


def _their_shape(frame: DissectedFrame) -> object:
    if frame.type == "protocol-header":
        return frame.type
    method = frame.method if frame.protocol == NAME else None
    return frame.protocol, frame.type, frame.channel, frame.size, frame.flags, method


def _their_text(frame: DissectedFrame) -> str:
    if frame.type == "protocol-header":
        return "a protocol header"
    name = f"method {frame.method[0]}.{frame.method[1]}" if frame.method else frame.type
    return f"{name} on channel {frame.channel}, {frame.size} bytes"


class _Lane:
    """The uncompared frames of both engines in one direction of a stream."""

    def __init__(self) -> None:
        self.ours: deque[_Own] = deque()
        self.theirs: deque[DissectedFrame] = deque()
        self.has_hole = False


class _Comparison:
    """Side-by-side comparison of the frames of both engines in one capture."""

    def __init__(self, file: str, tiny: set[int]) -> None:
        self.compared = self.not_compared = 0
        self._file = file
        self._tiny = tiny
        self._lanes: dict[Direction, _Lane] = {}
        self._client_ports: dict[int, int] = {}
        self._strangers: set[int] = set()
        """Streams whose client requested another version than 0-9-1."""
        self._holed: set[int] = set()
        """Streams with missing bytes."""
        self._ended: set[int] = set()
        """Streams that have ended."""
        self._clamped: set[int] = set()
        """Streams with frames that are too large for tshark."""
        self._waiting = 0

    def run(self, ours: Iterator[Decoded], theirs: Iterator[DissectedFrame]) -> Iterator[Difference]:
        """Yield differences while both engines advance in step, and finally the frames that only one of them has."""
        is_over = False
        for frame in theirs:
            while not is_over and (frame.stream not in self._client_ports or self._waiting < 0):
                is_over = not self._take_ours(ours)
            sender = "client" if frame.source_port == self._client_ports.get(frame.stream) else "server"
            lane = self._lane((frame.stream, sender))
            lane.theirs.append(frame)
            self._waiting -= 1
            while not is_over and not lane.ours:
                is_over = not self._take_ours(ours)
            yield from self._compared((frame.stream, sender), lane, False)
            if frame.stream in self._ended:
                self._forget(frame.stream)
            if abs(self._waiting) > MAX_WAITING_FRAMES:
                for place, each in self._lanes.items():
                    yield from self._compared(place, each, True)
                for stream in list(self._ended):
                    self._forget(stream)
        while self._take_ours(ours):
            pass
        for place, each in self._lanes.items():
            yield from self._compared(place, each, True)

    def _forget(self, stream: int) -> None:
        """Forget a stream that has ended and has no waiting frames."""
        lanes = [self._lanes.get((stream, sender)) for sender in ("client", "server")]
        if not any(lane is not None and (lane.ours or lane.theirs) for lane in lanes):
            self._ended.discard(stream)
            for sender in ("client", "server"):
                self._lanes.pop((stream, sender), None)

    def _lane(self, place: Direction) -> _Lane:
        lane = self._lanes.get(place)
        if lane is None:
            lane = self._lanes[place] = _Lane()
        return lane

    def _take_ours(self, ours: Iterator[Decoded]) -> bool:
        """Process amqproxy's next decoded item; False at the end."""
        each = next(ours, None)
        if each is None:
            return False
        client = each.connection.partition("-")[0]
        self._client_ports.setdefault(each.stream, int(client.rpartition(":")[2]))
        if isinstance(each, StreamEnded):
            self._ended.add(each.stream)
        elif isinstance(each, DecodedFrames):
            self._lane((each.stream, each.sender)).ours.extend(
                _own_frame(each.protocol, frame) for frame in each.frames
            )
            if any(frame.size > known_faults.CLAMPED_BYTES for frame in each.frames):
                self._clamped.add(each.stream)
            self._waiting += len(each.frames)
        elif isinstance(each, DecodedProtocolHeader):
            if each.protocol not in COMPARED and each.sender == "client":
                self._strangers.add(each.stream)
            if each.data.startswith(HEADER[:4]):
                own = _other("protocol-header", f"a protocol header of {each.protocol}")
                self._lane((each.stream, each.sender)).ours.append(own)
        elif each.protocol in COMPARED:
            is_hole = each.reason in (MISSING, JOINED)
            if is_hole:
                self._holed.add(each.stream)
            text = f"{each.lost} bytes: {each.reason}"
            self._lane((each.stream, each.sender)).ours.append(_other("hole" if is_hole else "error", text))
        return True

    def _compared(self, place: Direction, lane: _Lane, is_all: bool) -> Iterator[Difference]:
        """Compare the frames that both engines have of a direction; with `is_all`, there will be no more."""
        while lane.ours or (is_all and lane.theirs):
            if lane.has_hole or (lane.ours and _is_hole(lane.ours[0])):
                self._pass_over(lane)
                return
            if not lane.theirs and not is_all:
                return
            own = lane.ours[0] if lane.ours else None
            frame = lane.theirs[0] if lane.theirs else None
            if own is not None and frame is not None and own.shape == _their_shape(frame):
                yield from self._fields(place, own, frame)
                self._drop(lane, 1, 1)
                continue
            if not is_all and (len(lane.ours) < WINDOW or len(lane.theirs) < WINDOW):
                return
            mine, other = _next_alike(lane)
            yield from self._only_one(place, lane, mine, other)
            self._drop(lane, mine, other)

    def _drop(self, lane: _Lane, mine: int, other: int) -> None:
        for _ in range(mine):
            self._waiting -= lane.ours.popleft().frame is not None
        for _ in range(other):
            self._waiting += 1
            lane.theirs.popleft()

    def _pass_over(self, lane: _Lane) -> None:
        """Skip the rest of a direction after a gap."""
        lane.has_hole = True
        self.not_compared += sum(own.frame is not None for own in lane.ours)
        self._drop(lane, len(lane.ours), len(lane.theirs))

    def _fields(self, place: Direction, own: _Own, frame: DissectedFrame) -> Iterator[Difference]:
        if own.frame is None:
            return
        self.compared += 1
        for each in COMPARED[own.protocol].differences(own.frame, frame):
            yield Difference(
                self._file, *place, each.ours, each.theirs, str(own), each.field or None, frame.packet, each.known
            )

    def _only_one(self, place: Direction, lane: _Lane, mine: int, other: int) -> Iterator[Difference]:
        """Yield the first `mine` and `other` frames, each of which only one engine has."""
        ours = [lane.ours[index] for index in range(mine)]
        theirs = [lane.theirs[index] for index in range(other)]
        known = self._explained(place, ours)
        for own in ours:
            yield Difference(self._file, *place, str(own), None, known=known)
        for frame in theirs:
            yield Difference(self._file, *place, None, _their_text(frame), packet=frame.packet, known=known)

    def _explained(self, place: Direction, ours: list[_Own]) -> str | None:
        """Return the known fault that makes tshark find other frames here."""
        if ours and all(own.type == "protocol-header" for own in ours):
            return known_faults.HEADER_VERSION
        if place[0] in self._strangers:
            return known_faults.OTHER_VERSION
        if place[0] in self._holed:
            return known_faults.HOLE
        if place[0] in self._tiny:
            return known_faults.TINY_SEGMENTS
        if any(own.type == "error" for own in ours):
            return known_faults.FRAME_END
        return known_faults.CLAMPED if place[0] in self._clamped else None


def _is_hole(own: _Own) -> bool:
    return own.type == "hole" or (own.frame is not None and own.frame.lost > 0)


def _next_alike(lane: _Lane) -> tuple[int, int]:
    """Return how many frames of each engine precede the next common one; the whole window if there is none."""
    ours = [own.shape for own in list(lane.ours)[:WINDOW]]
    theirs = [_their_shape(frame) for frame in list(lane.theirs)[:WINDOW]]
    for distance in range(1, len(ours) + len(theirs)):
        for mine in range(distance + 1):
            other = distance - mine
            if mine < len(ours) and other < len(theirs) and ours[mine] == theirs[other]:
                return mine, other
    return len(ours), len(theirs)
