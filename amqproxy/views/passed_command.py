"""Commands as they passed in a capture: a method with its content, put together from the frames of both sides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

from amqproxy.amqp010 import controls
from amqproxy.amqp010.errors import ProtocolError as AMQP010Error
from amqproxy.amqp010.frame import Frame as AMQP010Frame
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import HEADER, HEARTBEAT, METHOD, Frame
from amqproxy.amqp091.methods import ConnectionCloseOk
from amqproxy.amqp091.methods import Method as AMQP091Method
from amqproxy.amqp091.properties import NO_PROPERTIES, ContentHeader
from amqproxy.capture.decoded import (
    Decoded,
    DecodedAMQP010Frames,
    DecodedFrames,
    DecodedProtocolHeader,
    SkippedBytes,
    StreamEnded,
)
from amqproxy.taps.amqp010_trace.partial_command import PartialCommand
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.trace.content import PartialContent
from amqproxy.taps.trace.events import MessageProperties, Method
from amqproxy.taps.trace.transfers import TransferProperties


class PassedKind(StrEnum):
    """What passed."""

    COMMAND = "command"
    """A method, with all of its content."""
    CUT_COMMAND = "cut command"
    """A method of which some content did not come, or is not in the capture."""
    STRAY_CONTENT = "stray content"
    """A header or a body frame whose method is not in the capture."""
    HEARTBEAT = "heartbeat"
    PROTOCOL_HEADER = "protocol header"
    ERROR = "error"
    """Bytes that could not be read."""
    END = "end"
    """Both directions of the connection are over."""

    @property
    def is_without_method(self) -> bool:
        return self not in (PassedKind.COMMAND, PassedKind.CUT_COMMAND)


class PassedCommand(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one side of a connection sent, complete at `ts_ns`; `sender` is "" for the end of both.

    Of a recording of the proxy's, `leg` is the one that it passed on, and `note` what rules have made of it. `channel`
    is None for what is of no channel. A command of 0-10 has its `command_id`, where that is known. `size` is that of
    the body, `body` as much of its beginning as was asked for. `text` is the protocol's name, or what went wrong, or
    why the connection is over, unless it was closed before.
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
    """The commands of all connections, each when it is complete, with the first `body` bytes of each body.

    What is not complete yet comes cut when the next command of its channel begins, or nothing more can come of it.
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
    """Puts together the commands of one connection."""

    def __init__(self, stream: int, connection: str, body: int) -> None:
        self._stream = stream
        self._connection = connection
        self._body = body
        self._leg = ""
        self._note = NOTHING
        self._is_closed = False
        self._partial: dict[tuple[str, int], tuple[int, PartialContent]] = {}
        self._commands: dict[tuple[str, int, int], tuple[int, PartialCommand]] = {}
        """Of 0-10: by sender, channel and track."""

    def feed(self, decoded: Decoded) -> Iterator[PassedCommand]:
        self._leg = decoded.leg
        self._note = NOTHING
        match decoded:
            case DecodedFrames():
                self._note = decoded.note
                for frame in decoded.frames:
                    yield from self._take(decoded.sender, frame, decoded.ts_ns)
            case DecodedAMQP010Frames():
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
        """The commands that are not complete, of one side or of both: nothing more comes of them."""
        places = [place for place in self._partial if sender in (None, place[0])]
        tracks = [place for place in self._commands if sender in (None, place[0])]
        return [self._cut(place) for place in places] + [each for place in tracks for each in self._cut_command(place)]

    def _take(self, sender: str, frame: Frame, ts_ns: int) -> Iterator[PassedCommand]:
        channel, kind = frame.channel, frame.kind
        if kind == HEARTBEAT:
            yield self._new(PassedKind.HEARTBEAT, ts_ns, sender, channel)
            return
        place = (sender, channel)
        if kind == METHOD and place in self._partial:
            yield self._cut(place)
        try:
            taken = self._taken(place, frame, ts_ns)
        except ProtocolError as error:
            if place in self._partial:
                yield self._cut(place)
            text = f"{error.code} {error.reply_text}, {frame.size} bytes lost"
            taken = self._new(PassedKind.ERROR, ts_ns, sender, channel, text=text)
        if taken is not None:
            yield taken

    def _taken(self, place: tuple[str, int], frame: Frame, ts_ns: int) -> PassedCommand | None:
        """What a frame completes; `ProtocolError` where it cannot be decoded."""
        if frame.kind == METHOD:
            method: AMQP091Method = frame.method
            self._is_closed = self._is_closed or isinstance(method, ConnectionCloseOk)
            if not method.carries_content:
                return self._new(PassedKind.COMMAND, ts_ns, *place, method=method)
            self._partial[place] = (ts_ns, PartialContent(method, self._body))
            return None
        _, content = self._partial.get(place, (0, None))
        if content is None or content.has_header is (frame.kind == HEADER):
            part = "header" if frame.kind == HEADER else "body"
            return self._new(PassedKind.STRAY_CONTENT, ts_ns, *place, size=frame.size, text=part)
        if frame.kind == HEADER:
            header: ContentHeader = frame.header
            is_complete = content.add_header(header.body_size, header.properties)
        else:
            is_complete = content.add_body(frame.size, frame.known_payload if content.wants_body else None)
        if not is_complete:
            self._partial[place] = (ts_ns, content)
            return None
        del self._partial[place]
        return self._with(PassedKind.COMMAND, ts_ns, place, content)

    def _cut(self, place: tuple[str, int]) -> PassedCommand:
        ts_ns, content = self._partial.pop(place)
        return self._with(PassedKind.CUT_COMMAND, ts_ns, place, content)

    def _with(self, kind: PassedKind, ts_ns: int, place: tuple[str, int], content: PartialContent) -> PassedCommand:
        return PassedCommand(
            kind=kind,
            ts_ns=ts_ns,
            stream=self._stream,
            connection=self._connection,
            sender=place[0],
            channel=place[1],
            leg=self._leg,
            note=self._note,
            method=content.method,
            properties=content.properties,
            size=content.size if content.has_header else None,
            body=content.body,
        )

    # --- AMQP 0-10

    def _take_amqp010(
        self, sender: str, frame: AMQP010Frame, number: int | None, ts_ns: int
    ) -> Iterator[PassedCommand]:
        place = (sender, frame.channel, frame.track)
        if frame.begins_assembly:
            yield from self._cut_command(place)
            self._commands[place] = (ts_ns, PartialCommand(number, self._body, is_digested=False))
        _, command = self._commands.get(place, (0, None))
        if command is None:
            text = "body" if frame.is_last_segment else "header"
            yield self._new(PassedKind.STRAY_CONTENT, ts_ns, sender, frame.channel, size=frame.size, text=text)
            return
        self._commands[place] = (ts_ns, command)
        try:
            is_complete = command.add(frame)
        except AMQP010Error as error:
            yield from self._cut_command(place)
            text = f"{int(error.code)} {error.reply_text}, {frame.size} bytes lost"
            yield self._new(PassedKind.ERROR, ts_ns, sender, frame.channel, text=text)
            return
        if is_complete:
            del self._commands[place]
            yield self._completed(PassedKind.COMMAND, ts_ns, place, command)

    def _cut_command(self, place: tuple[str, int, int]) -> Iterator[PassedCommand]:
        ts_ns, command = self._commands.pop(place, (0, None))
        if command is not None and command.method is not None:
            yield self._completed(PassedKind.CUT_COMMAND, ts_ns, place, command)

    def _completed(
        self, kind: PassedKind, ts_ns: int, place: tuple[str, int, int], command: PartialCommand
    ) -> PassedCommand:
        method = command.method
        self._is_closed = self._is_closed or isinstance(method, controls.ConnectionCloseOk)
        if isinstance(method, controls.ConnectionHeartbeat):
            return self._new(PassedKind.HEARTBEAT, ts_ns, *place[:2])
        return PassedCommand(
            kind=kind,
            ts_ns=ts_ns,
            stream=self._stream,
            connection=self._connection,
            sender=place[0],
            channel=place[1],
            leg=self._leg,
            note=self._note,
            method=method,
            properties=TransferProperties(command.header),
            command_id=command.position,
            size=command.size if method.carries_content else None,
            body=command.body,
        )

    def _new(
        self,
        kind: PassedKind,
        ts_ns: int,
        sender: str,
        channel: int | None = None,
        *,
        method: Method | None = None,
        size: int | None = None,
        text: str = "",
    ) -> PassedCommand:
        return PassedCommand(
            kind=kind,
            ts_ns=ts_ns,
            stream=self._stream,
            connection=self._connection,
            sender=sender,
            channel=channel,
            leg=self._leg,
            note=self._note,
            method=method,
            size=size,
            text=text,
        )
