"""Assembly of the commands of a 0-9-1 connection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import HEADER, HEARTBEAT, METHOD, Frame
from amqproxy.amqp091.methods import ConnectionCloseOk
from amqproxy.amqp091.methods import Method as Amqp091Method
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.protocol_header import NAME
from amqproxy.capture.decoded import DecodedFrames
from amqproxy.taps.trace.content import PartialContent
from amqproxy.views.command_assembler import CommandAssembler, Partial, Place
from amqproxy.views.passed_command import PassedCommand, PassedKind


class Amqp091CommandAssembler(CommandAssembler):
    """Assembler of 0-9-1 methods with their contents."""

    protocol = NAME

    def _take_frames(self, decoded: DecodedFrames) -> Iterator[PassedCommand]:
        for frame in decoded.frames:
            yield from self._take(decoded.sender, frame, decoded.ts_ns)

    def _fields(self, content: PartialContent) -> Mapping[str, Any]:
        return {"properties": content.properties, "size": content.size if content.has_header else None}

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

    def _taken(self, place: Place, frame: Frame, ts_ns: int) -> PassedCommand | None:
        """Return the command that a frame completes; `ProtocolError` if it cannot be decoded."""
        sender, channel, *_ = place
        if frame.kind == METHOD:
            method: Amqp091Method = frame.method
            self._is_closed = self._is_closed or isinstance(method, ConnectionCloseOk)
            if not method.carries_content:
                return self._new(PassedKind.COMMAND, ts_ns, sender, channel, method=method)
            self._partial[place] = Partial(ts_ns, self._note, PartialContent(method, self._body))
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
