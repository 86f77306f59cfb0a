"""Assembly of the commands of a 0-10 connection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from amqproxy.amqp010.controls import ConnectionCloseOk, ConnectionHeartbeat
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.protocol_header import NAME
from amqproxy.capture.decoded import DecodedFrames
from amqproxy.taps.amqp010.transfers import TransferProperties
from amqproxy.taps.trace.amqp010.partial_command import PartialCommand
from amqproxy.views.command_assembler import CommandAssembler, Partial, Place
from amqproxy.views.passed_command import PassedCommand, PassedKind


class Amqp010CommandAssembler(CommandAssembler):
    """Assembler of 0-10 controls and commands."""

    protocol = NAME

    def _take_frames(self, decoded: DecodedFrames) -> Iterator[PassedCommand]:
        for frame, number in zip(decoded.frames, decoded.command_ids, strict=True):
            yield from self._take(decoded.sender, frame, number, decoded.ts_ns)

    def _finished(self, kind: PassedKind, place: Place) -> PassedCommand:
        method = self._partial[place].content.method
        self._is_closed = self._is_closed or isinstance(method, ConnectionCloseOk)
        if isinstance(method, ConnectionHeartbeat):
            ts_ns = self._partial.pop(place).ts_ns
            return self._new(PassedKind.HEARTBEAT, ts_ns, *place[:2])
        return super()._finished(kind, place)

    def _fields(self, content: PartialCommand) -> Mapping[str, Any]:
        delivery = content.header.delivery
        return {
            "properties": TransferProperties(content.header),
            "command_id": content.position,
            "size": content.size if content.method.carries_content else None,
            "places": {}
            if delivery is None
            else {"exchange": delivery.exchange or "", "routing_key": delivery.routing_key or ""},
        }

    def _take(self, sender: str, frame: Frame, number: int | None, ts_ns: int) -> Iterator[PassedCommand]:
        channel, track = frame.channel, frame.track
        places = self._open(sender, channel, track)
        if frame.begins_assembly:
            for place in places:
                yield from self._cut(place)
            places = [(sender, channel, track, self._note.leg)]
            command = PartialCommand(number, self._body, is_digested=False)
            self._partial[places[0]] = Partial(ts_ns, self._note, command)
        elif not places:
            text = "body" if frame.is_last_segment else "header"
            yield self._new(PassedKind.STRAY_CONTENT, ts_ns, sender, channel, size=frame.size, text=text)
        for place in places:
            self._partial[place] = partial = self._partial[place]._replace(ts_ns=ts_ns)
            try:
                is_complete = partial.content.add(frame)
            except ProtocolError as error:
                yield from self._cut(place)
                text = f"{int(error.code)} {error.reply_text}, {frame.size} bytes lost"
                yield self._new(PassedKind.ERROR, ts_ns, sender, channel, text=text)
                continue
            if is_complete:
                yield self._finished(PassedKind.COMMAND, place)
