"""Decoded 0-10 frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

import msgspec

from amqproxy.amqp010.controls import ConnectionStart, ConnectionStartOk
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import CONTROL
from amqproxy.amqp010.protocol_header import NAME
from amqproxy.capture.amqp010.secrets import masked
from amqproxy.capture.decoded import DecodedFrames
from amqproxy.conversion.client_name import given_name
from amqproxy.peer import CLIENT
from amqproxy.taps.amqp010.record import record_amqp010_frame
from amqproxy.taps.record import Record


class Amqp010DecodedFrames(DecodedFrames, frozen=True, gc=False, kw_only=True):
    """0-10 frames completed by one packet.

    `command_ids` holds the id of each frame's command, or None for a control, and if the id is unknown.
    """

    protocol = NAME
    end_bytes = 0
    command_ids: Sequence[int | None]

    def at(self, places: Sequence[int]) -> Self:
        return msgspec.structs.replace(
            self,
            frames=[self.frames[place] for place in places],
            command_ids=[self.command_ids[place] for place in places],
        )

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

    def masked(self, data: bytes) -> bytes:
        return masked(data) if self.sender == CLIENT else data
