"""Facts about both peers that a handshake shows, in either protocol."""

from __future__ import annotations

from typing import Any

from amqproxy.taps.trace.events import ConnectionOpened
from amqproxy.taps.trace.snapshot import HandshakeSnapshot

STEPS = frozenset(
    f"connection.{step}" for step in ("start", "start-ok", "secure", "secure-ok", "tune", "tune-ok", "open", "open-ok")
)
"""Names of the handshake methods, the same in both protocols."""


class HandshakeFacts:
    """Facts of a handshake; `None` for each that was not seen.

    `greeted_ts_ns` is the time of the client's protocol header. Properties have the form used by records; limits are
    those agreed. `step` is the last handshake method of either peer.
    """

    __slots__ = (
        "channel_max",
        "client_properties",
        "frame_max",
        "greeted_ts_ns",
        "heartbeat",
        "mechanism",
        "server_properties",
        "step",
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
        self.step: str | None = None

    def restore(self, snapshot: HandshakeSnapshot) -> None:
        """Take the facts of a snapshot."""
        for name in HandshakeSnapshot.__struct_fields__:
            setattr(self, name, getattr(snapshot, name))

    def snapshot(self) -> HandshakeSnapshot:
        """Return the facts for a snapshot."""
        return HandshakeSnapshot(**{name: getattr(self, name) for name in HandshakeSnapshot.__struct_fields__})

    def take_step(self, method: str) -> None:
        """Note the method with that name, if it is one of a handshake."""
        if method in STEPS:
            self.step = method

    def has_capability(self, name: str) -> bool | None:
        """Whether the client has announced an extension of RabbitMQ's; None where its properties were not seen."""
        if self.client_properties is None:
            return None
        capabilities = self.client_properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(name) is True

    def greet(self, ts_ns: int) -> None:
        """Record the time of the client's protocol header; only the first one counts."""
        if self.greeted_ts_ns is None:
            self.greeted_ts_ns = ts_ns

    def opened(self, ts_ns: int) -> ConnectionOpened:
        """Record the server's connection.open-ok, and return the event for it."""
        self.take_step("connection.open-ok")
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
