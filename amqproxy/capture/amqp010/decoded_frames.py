"""Decoded 0-10 frames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from amqproxy.amqp010.controls import ConnectionHeartbeat, ConnectionStart, ConnectionStartOk, SessionCommandPoint
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import CONTROL, Frame
from amqproxy.amqp010.protocol_header import NAME
from amqproxy.capture.amqp010.secrets import masked
from amqproxy.capture.decoded import DecodedFrames
from amqproxy.conversion.client_name import given_name
from amqproxy.peer import CLIENT
from amqproxy.taps.amqp010.record import record_amqp010_frame
from amqproxy.taps.record import Record


class Amqp010DecodedFrames(DecodedFrames, frozen=True, gc=False):
    """0-10 frames completed by one packet."""

    protocol = NAME
    end_bytes = 0

    def unnumbered(self) -> Self | None:
        # Without session.command-point, a reader finds command ids unknown.
        places = [place for place, frame in enumerate(self.frames) if frame.index != SessionCommandPoint.index]
        return self if len(places) == len(self.frames) else self.at(places) if places else None

    def records(self, body: int) -> Iterator[Record]:
        for frame, command_id in zip(self.frames, self.command_ids, strict=True):
            yield record_amqp010_frame(
                frame,
                ts_ns=self.ts_ns,
                stream=self.stream,
                connection=self.connection,
                sender=self.sender,
                command_id=command_id,
                note=self.note,
                body=body,
            )

    @property
    def is_beginning(self) -> bool:
        return bool(self.frames[0].index == ConnectionStart.index)

    def client_name(self) -> str | None:
        for frame in self.frames:
            if frame.index == ConnectionStartOk.index and frame.is_whole_segment:
                try:
                    return given_name(frame.method.client_properties or {})
                except ProtocolError:
                    return ""
        return None

    def places(self) -> Iterator[tuple[int, bool, bool]]:
        for frame in self.frames:
            yield frame.channel, frame.kind == CONTROL, frame.begins_assembly

    def is_heartbeat(self, frame: Frame) -> bool:
        return bool(frame.index == ConnectionHeartbeat.index)

    def masked(self, data: bytes) -> bytes:
        return masked(data) if self.sender == CLIENT else data
