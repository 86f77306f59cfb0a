"""A leg of an open connection as a value of a few hundred bytes, from which an equivalent leg is rebuilt."""

from __future__ import annotations

from typing import Any, Self

import msgspec

from amqproxy.proxy.leg import Leg


class PackedLeg(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """The negotiated parameters of a leg, whatever the protocol; a dialect adds the open channels.

    `start_ok` is the encoded form of the client's. `offset`, `frames` and `received` count what its peer had sent by
    then; `progress` is its transport's.
    """

    start_ok: bytes
    virtual_host: str
    channel_max: int
    frame_max: int
    heartbeat: int
    largest_frame: int
    channel_count: int
    offset: int
    frames: int
    received: int
    progress: int

    @classmethod
    def of(cls, leg: Any) -> Self | None:
        """Return the leg as a value; `None` if it has more state than the value can hold."""
        return None

    @classmethod
    def _new(cls, leg: Leg[Any], start_ok: bytes, channel_count: int, **more: Any) -> Self:
        """Return the value of an open leg, with the fields that the dialect adds."""
        connection: Any = leg.connection
        return cls(
            start_ok=start_ok,
            virtual_host=connection.virtual_host,
            channel_max=connection.channel_max,
            frame_max=connection.frame_max,
            heartbeat=connection.heartbeat,
            largest_frame=leg.reader.frame_max,
            channel_count=channel_count,
            offset=leg.reader.offset,
            frames=leg.reader.frames,
            received=leg.transport.received,
            progress=leg.transport.progress,
            **more,
        )

    def restore(self, leg: Any, start_oks: dict[bytes, Any]) -> None:
        """Restore the value into a new leg, except what was read since; `start_oks` caches what was decoded."""
        connection, reader = leg.connection, leg.reader
        if self.start_ok not in start_oks:
            start_oks[self.start_ok] = self._decoded_start_ok()
        connection.client = start_oks[self.start_ok]
        connection.virtual_host = self.virtual_host
        connection.channel_max = self.channel_max
        connection.frame_max = self.frame_max
        connection.heartbeat = self.heartbeat
        for each in connection.readers.values():
            each.set_frame_max(self.frame_max)
        reader.set_frame_max(self.largest_frame)
        reader.skip(self.offset)

    def _decoded_start_ok(self) -> Any:
        """Return the client's decoded `start_ok`."""
        raise NotImplementedError
