"""What a handshake shows of both peers, in either protocol."""

from __future__ import annotations

from typing import Any

from amqproxy.taps.trace.events import ConnectionOpened


class HandshakeFacts:
    """What was seen of a handshake; None is what was not.

    `greeted_ts_ns` is when the client sent its protocol header. Properties are as records have them; limits as agreed.
    """

    __slots__ = (
        "channel_max",
        "client_properties",
        "frame_max",
        "greeted_ts_ns",
        "heartbeat",
        "mechanism",
        "server_properties",
        "user",
        "virtual_host",
    )

    def __init__(self) -> None:
        self.greeted_ts_ns: int | None = None
        self.mechanism: str | None = None
        self.user: str | None = None
        self.virtual_host: str | None = None
        self.client_properties: dict[str, Any] | None = None
        self.server_properties: dict[str, Any] | None = None
        self.channel_max: int | None = None
        self.frame_max: int | None = None
        self.heartbeat: int | None = None

    def greet(self, ts_ns: int) -> None:
        """The client sends its protocol header; the first one counts."""
        if self.greeted_ts_ns is None:
            self.greeted_ts_ns = ts_ns

    def opened(self, ts_ns: int) -> ConnectionOpened:
        """The server has sent connection.open-ok."""
        return ConnectionOpened(
            ts_ns=ts_ns,
            virtual_host=self.virtual_host,
            mechanism=self.mechanism,
            user=self.user,
            client_properties=self.client_properties,
            server_properties=self.server_properties,
            channel_max=self.channel_max,
            frame_max=self.frame_max,
            heartbeat=self.heartbeat,
            latency_ns=None if self.greeted_ts_ns is None else ts_ns - self.greeted_ts_ns,
        )
