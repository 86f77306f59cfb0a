"""Decoded 0-9-1 frames."""

from __future__ import annotations

from collections.abc import Iterator

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import BODY, HEADER, HEARTBEAT, METHOD, Frame
from amqproxy.amqp091.methods import ConnectionStart, ConnectionStartOk
from amqproxy.amqp091.protocol_header import NAME
from amqproxy.capture.amqp091.secrets import masked
from amqproxy.capture.decoded import DecodedFrames
from amqproxy.conversion.client_name import given_name
from amqproxy.taps.record import Record, record_frame


class Amqp091DecodedFrames(DecodedFrames, frozen=True, gc=False):
    """0-9-1 frames completed by one packet."""

    protocol = NAME
    end_bytes = 1

    def records(self, body: int) -> Iterator[Record]:
        for frame in self.frames:
            yield record_frame(
                frame,
                ts_ns=self.ts_ns,
                stream=self.stream,
                connection=self.connection,
                sender=self.sender,
                note=self.note,
                body=body,
            )

    @property
    def is_beginning(self) -> bool:
        first = self.frames[0]
        return bool(first.kind == METHOD and first.index == ConnectionStart.index)

    def client_name(self) -> str | None:
        for frame in self.frames:
            if frame.index == ConnectionStartOk.index:
                try:
                    return given_name(frame.method.client_properties.values_by_name)
                except ProtocolError:
                    return ""
        return None

    def places(self) -> Iterator[tuple[int, bool, bool]]:
        for frame in self.frames:
            yield frame.channel, False, frame.kind not in (HEADER, BODY)

    def is_heartbeat(self, frame: Frame) -> bool:
        return bool(frame.kind == HEARTBEAT)

    def masked(self, data: bytes) -> bytes:
        return masked(data)
