"""Commands as they passed in a capture: methods with their content, assembled from the frames of both sides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from amqproxy.amqp010 import controls
from amqproxy.amqp010.errors import ProtocolError as Amqp010Error
from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import HEADER, HEARTBEAT, METHOD, Frame
from amqproxy.amqp091.methods import ConnectionCloseOk
from amqproxy.amqp091.methods import Method as Amqp091Method
from amqproxy.amqp091.properties import NO_PROPERTIES, ContentHeader
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import Decoded, DecodedProtocolHeader, SkippedBytes, StreamEnded
from amqproxy.taps.amqp010.transfers import TransferProperties
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.trace.amqp010.partial_command import PartialCommand
from amqproxy.taps.trace.content import PartialContent
from amqproxy.taps.trace.events import MessageProperties, Method

_Place = tuple[str, int, int, str]
"""The place of a command: sender, channel, track (0 in 0-9-1), and the leg of its note."""

_LEGS = ("", "client", "upstream")


class _Partial(NamedTuple):
    """An incomplete command: the time of its latest frame, its note, and its content so far."""

    ts_ns: int
    note: Note
    content: Any


class PassedKind(StrEnum):
    """Kinds of events on a connection."""

    COMMAND = "command"
    """A method, with all of its content."""
    CUT_COMMAND = "cut command"
    """A method with incomplete content: it did not arrive, or is not in the capture."""
    STRAY_CONTENT = "stray content"
    """A header or a body frame whose method is not in the capture."""
    HEARTBEAT = "heartbeat"
    PROTOCOL_HEADER = "protocol header"
    ERROR = "error"
    """Unreadable bytes."""
    END = "end"
    """The end of both directions of the connection."""

    @property
    def is_without_method(self) -> bool:
        return self not in (PassedKind.COMMAND, PassedKind.CUT_COMMAND)


class PassedCommand(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A command or other event of one side of a connection, complete at `ts_ns`; `sender` is "" for the end of both.

    In a recording of the proxy, `leg` is the one that it passed on, and `note` the effect of rules. `channel` is None
    for events without a channel. A 0-10 command has its `command_id`, if that is known. `size` is that of the body,
    `body` as much of its beginning as was requested. `text` is the protocol's name, the error, or the reason for which
    the connection ended, unless it was closed before.
    """

    kind: PassedKind
    ts_ns: int
    stream: int
    connection: str
    sender: str = ""
    channel: int | None = None
    method: Method | None = None
    leg: str = ""
    note: Note = NOTHING
    properties: MessageProperties = NO_PROPERTIES
    command_id: int | None = None
    size: int | None = None
    body: bytes = b""
    text: str = ""


def commands_of(decoded: Iterable[Decoded], *, body: int = 0) -> Iterator[PassedCommand]:
    """Yield the commands of all connections as they become complete, with the first `body` bytes of each body.

    An incomplete command is yielded as cut when the next command of its channel begins, or nothing more can follow.
    """
    assemblers: dict[int, _Assembler] = {}
    for each in decoded:
        assembler = assemblers.get(each.stream)
        if assembler is None:
            assembler = assemblers[each.stream] = _Assembler(each.stream, each.connection, body)
        yield from assembler.feed(each)
        if isinstance(each, StreamEnded):
            del assemblers[each.stream]
    for assembler in assemblers.values():
        yield from assembler.cut()


class _Assembler:
    """Assembles the commands of one connection."""

    def __init__(self, stream: int, connection: str, body: int) -> None:
        self._stream = stream
        self._connection = connection
        self._body = body
        self._leg = ""
        self._note = NOTHING
        self._is_closed = False
        self._partial: dict[_Place, _Partial] = {}

    def feed(self, decoded: Decoded) -> Iterator[PassedCommand]:
        self._leg = decoded.leg
        self._note = NOTHING
        match decoded:
            case Amqp091DecodedFrames():
                self._note = decoded.note
                for frame in decoded.frames:
                    yield from self._take(decoded.sender, frame, decoded.ts_ns)
            case Amqp010DecodedFrames():
                self._note = decoded.note
                for each, number in zip(decoded.frames, decoded.command_ids, strict=True):
                    yield from self._take_amqp010(decoded.sender, each, number, decoded.ts_ns)
            case DecodedProtocolHeader():
                yield self._new(
                    PassedKind.PROTOCOL_HEADER, decoded.ts_ns, decoded.sender, text=decoded.protocol or "unknown"
                )
            case SkippedBytes():
                yield from self.cut(decoded.sender)
                lost = f", {decoded.lost} bytes lost" if decoded.lost else ""
                text = f"{decoded.code or ''} {decoded.reason}{lost}".strip()
                yield self._new(PassedKind.ERROR, decoded.ts_ns, decoded.sender, decoded.channel, text=text)
            case StreamEnded():
                yield from self.cut()
                yield self._new(PassedKind.END, decoded.ts_ns, "", text="" if self._is_closed else decoded.reason)

    def cut(self, sender: str | None = None) -> list[PassedCommand]:
        """Return the incomplete commands of one side or of both as cut, since nothing more can follow."""
        places = [place for place in self._partial if sender in (None, place[0])]
        return [each for place in places for each in self._cut(place)]

    def _open(self, sender: str, channel: int, track: int = 0) -> list[_Place]:
        """Return the open commands that the next frame may belong to: one per leg, if it passed on both."""
        leg = self._note.leg
        places = [(sender, channel, track, each) for each in (("", leg) if leg else _LEGS)]
        return [place for place in places if place in self._partial]

    def _take(self, sender: str, frame: Frame, ts_ns: int) -> Iterator[PassedCommand]:
        channel, kind = frame.channel, frame.kind
        if kind == HEARTBEAT:
            yield self._new(PassedKind.HEARTBEAT, ts_ns, sender, channel)
            return
        places = self._open(sender, channel)
        if kind == METHOD:
            for place in places:
                yield from self._cut(place)
            places = [(sender, channel, 0, self._note.leg)]
        elif not places:
            yield self._stray(ts_ns, sender, frame)
        for place in places:
            try:
                taken = self._taken(place, frame, ts_ns)
            except ProtocolError as error:
                if place in self._partial:
                    yield from self._cut(place)
                text = f"{error.code} {error.reply_text}, {frame.size} bytes lost"
                taken = self._new(PassedKind.ERROR, ts_ns, sender, channel, text=text)
            if taken is not None:
                yield taken

    def _taken(self, place: _Place, frame: Frame, ts_ns: int) -> PassedCommand | None:
        """Return the command that a frame completes; `ProtocolError` if it cannot be decoded."""
        sender, channel, *_ = place
        if frame.kind == METHOD:
            method: Amqp091Method = frame.method
            self._is_closed = self._is_closed or isinstance(method, ConnectionCloseOk)
            if not method.carries_content:
                return self._new(PassedKind.COMMAND, ts_ns, sender, channel, method=method)
            self._partial[place] = _Partial(ts_ns, self._note, PartialContent(method, self._body))
            return None
        partial = self._partial[place]._replace(ts_ns=ts_ns)
        content = partial.content
        if content.has_header is (frame.kind == HEADER):
            return self._stray(ts_ns, sender, frame)
        if frame.kind == HEADER:
            header: ContentHeader = frame.header
            is_complete = content.add_header(header.body_size, header.properties)
        else:
            is_complete = content.add_body(frame.size, frame.known_payload if content.wants_body else None)
        self._partial[place] = partial
        return self._finished(PassedKind.COMMAND, place) if is_complete else None

    def _stray(self, ts_ns: int, sender: str, frame: Frame) -> PassedCommand:
        part = "header" if frame.kind == HEADER else "body"
        return self._new(PassedKind.STRAY_CONTENT, ts_ns, sender, frame.channel, size=frame.size, text=part)

    def _cut(self, place: _Place) -> Iterator[PassedCommand]:
        if self._partial[place].content.method is None:
            del self._partial[place]
        else:
            yield self._finished(PassedKind.CUT_COMMAND, place)

    def _finished(self, kind: PassedKind, place: _Place) -> PassedCommand:
        """Remove and return a command with its content so far."""
        ts_ns, note, content = self._partial.pop(place)
        method = content.method
        fields: dict[str, Any]
        if isinstance(content, PartialContent):
            fields = {"properties": content.properties, "size": content.size if content.has_header else None}
        else:
            self._is_closed = self._is_closed or isinstance(method, controls.ConnectionCloseOk)
            if isinstance(method, controls.ConnectionHeartbeat):
                return self._new(PassedKind.HEARTBEAT, ts_ns, *place[:2])
            size = content.size if method.carries_content else None
            fields = {
                "properties": TransferProperties(content.header),
                "command_id": content.position,
                "size": size,
            }
        return self._new(kind, ts_ns, *place[:2], note=note, method=method, body=content.body, **fields)

    # --- AMQP 0-10

    def _take_amqp010(
        self, sender: str, frame: Amqp010Frame, number: int | None, ts_ns: int
    ) -> Iterator[PassedCommand]:
        channel, track = frame.channel, frame.track
        places = self._open(sender, channel, track)
        if frame.begins_assembly:
            for place in places:
                yield from self._cut(place)
            places = [(sender, channel, track, self._note.leg)]
            command = PartialCommand(number, self._body, is_digested=False)
            self._partial[places[0]] = _Partial(ts_ns, self._note, command)
        elif not places:
            text = "body" if frame.is_last_segment else "header"
            yield self._new(PassedKind.STRAY_CONTENT, ts_ns, sender, channel, size=frame.size, text=text)
        for place in places:
            self._partial[place] = partial = self._partial[place]._replace(ts_ns=ts_ns)
            try:
                is_complete = partial.content.add(frame)
            except Amqp010Error as error:
                yield from self._cut(place)
                text = f"{int(error.code)} {error.reply_text}, {frame.size} bytes lost"
                yield self._new(PassedKind.ERROR, ts_ns, sender, channel, text=text)
                continue
            if is_complete:
                yield self._finished(PassedKind.COMMAND, place)

    def _new(
        self, kind: PassedKind, ts_ns: int, sender: str, channel: int | None = None, **fields: Any
    ) -> PassedCommand:
        return PassedCommand(
            kind=kind,
            ts_ns=ts_ns,
            stream=self._stream,
            connection=self._connection,
            sender=sender,
            channel=channel,
            leg=self._leg,
            note=fields.pop("note", self._note),
            **fields,
        )
