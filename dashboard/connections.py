"""The connections of a source, as the observed traffic shows them: opening handshake, state, and end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from amqproxy.amqp010.controls import ConnectionOpen, ConnectionSecureOk, ConnectionStartOk
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp091.frame import METHOD, Frame
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import Decoded, DecodedFrames, StreamEnded
from amqproxy.dashboard.party import Party, party_of
from amqproxy.dashboard.shortening import shortened
from amqproxy.rules.amqp010.client_info import updated_amqp010_client
from amqproxy.rules.client_info import learned_client
from amqproxy.rules.context import Client
from amqproxy.taps.dialects import chunk_of, method_arguments
from amqproxy.taps.message_recorder import handshake
from amqproxy.taps.record import json_value
from amqproxy.taps.trace.events import (
    BlockingEnded,
    BlockingStarted,
    ChannelClosed,
    ChannelOpened,
    ConnectionClosed,
    ConnectionOpened,
    HistoryLost,
    TraceEvent,
    closer,
)

_INTRODUCING = frozenset({ConnectionStartOk.index, ConnectionSecureOk.index, ConnectionOpen.index})

_HANDSHAKE = (
    *("user", "mechanism", "virtual_host", "client_properties", "server_properties"),
    *("channel_max", "frame_max", "heartbeat"),
)

_NOTED = frozenset(
    (ConnectionOpened, ConnectionClosed, ChannelOpened, ChannelClosed, BlockingStarted, BlockingEnded, HistoryLost)
)
"""Types of the events that change a connection; there are few of them among those of messages."""

MAX_CONNECTIONS = 20_000
"""Maximum number of connections that are kept; beyond it the oldest closed ones are forgotten."""


class ConnectionEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a connection: who closed it (`None` if no peer did), code and text, and the command that caused it."""

    by: str | None
    code: int
    text: str
    method: str | None = None
    cause: dict[str, Any] | None = None
    ts_ns: int = 0


class SeenConnection(msgspec.Struct, kw_only=True):
    """One connection. `protocol` is `None` until it has had a frame.

    `handshake` holds the peers' properties, the login and the negotiated limits, `None` if its beginning was not seen;
    until `is_opened` only what the client has said.
    """

    stream: int
    connection: str
    since_ns: int
    last_ns: int
    first_seq: int
    last_seq: int
    protocol: str | None = None
    frames: int = 0
    bytes: dict[str, int] = msgspec.field(default_factory=lambda: {str(CLIENT): 0, str(SERVER): 0})
    handshake: dict[str, Any] | None = None
    is_opened: bool = False
    is_joined: bool = False
    is_blocked: bool = False
    is_open: bool = True
    channels: int = 0
    end: ConnectionEnd | None = None
    ended: str | None = None
    """The reason why both directions have ended."""

    def to_dict(self) -> dict[str, Any]:
        """Return the connection in its JSON form."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


class Connections:
    """All connections of a source by number; of several with the same number, the newest.

    Also their clients, for filters that begin in the middle of a connection.
    """

    def __init__(self) -> None:
        self.seen: dict[int, SeenConnection] = {}
        self._clients: dict[int, tuple[Client, int]] = {}
        self._parties: dict[int, Party] = {}

    def party(self, stream: int, connection: str) -> Party:
        """Return the client of a connection, as it is known by now."""
        found = self._parties.get(stream)
        if found is None:
            seen = self.seen.get(stream)
            found = party_of(connection, None if seen is None else seen.handshake)
            if seen is not None:
                self._parties[stream] = found
        return found

    def take(self, decoded: Decoded, seq: int, count: int, size: int = 0) -> None:
        """Record decoded traffic whose `count` rows begin at `seq`; its frames have `size` bytes."""
        seen = self.seen.get(decoded.stream)
        if seen is None or (seen.ended is not None and not isinstance(decoded, StreamEnded)):
            seen = self._new(decoded, seq)
        seen.last_ns = decoded.ts_ns
        if isinstance(decoded, StreamEnded):
            seen.is_open = False
            seen.ended = decoded.reason
            seen.channels = 0
            return
        seen.last_seq = seq + count - 1
        if isinstance(decoded, DecodedFrames):
            seen.protocol = decoded.protocol
            seen.frames += count
            seen.bytes[decoded.sender] += size

    def learn(self, decoded: Amqp091DecodedFrames, frames: Iterable[Frame], seq: int) -> None:
        """Learn the client's properties from the methods on channel 0."""
        for frame in frames:
            if frame.channel == 0 and frame.kind == METHOD:
                before = self._known_client(decoded.stream, decoded.connection)
                after = learned_client(before, Peer(decoded.sender), frame)
                if after is not before:
                    self._keep(decoded, after, seq)

    def learn_amqp010(self, decoded: Amqp010DecodedFrames, seq: int) -> None:
        """Learn a 0-10 client's properties from its login controls, if each is in a single frame."""
        if decoded.sender != CLIENT:
            return
        for frame in decoded.frames:
            if frame.index in _INTRODUCING and frame.is_whole_segment:
                before = self._known_client(decoded.stream, decoded.connection)
                with suppress(ProtocolError):  # a malformed control is reported elsewhere
                    self._keep(decoded, updated_amqp010_client(before, frame.method), seq)

    def _keep(self, decoded: DecodedFrames, client: Client, seq: int) -> None:
        self._clients[decoded.stream] = (client, seq)
        seen = self.seen.get(decoded.stream)
        if seen is not None and decoded.leg != "upstream" and not seen.is_opened:
            # A refused login has no ConnectionOpened event: only these controls name its user.
            facts = {"user": client.user, "virtual_host": client.vhost, "client_properties": client.properties}
            self._shake(seen, shortened({name: json_value(each) for name, each in facts.items() if each}))

    def restore(self, decoded: DecodedFrames) -> None:
        """Take the handshake from a snapshot, unless it was observed."""
        seen = self.seen.get(decoded.stream)
        if decoded.snapshot is None or seen is None or seen.is_opened:
            return
        facts = decoded.snapshot.handshake
        found = {name: getattr(facts, name) for name in _HANDSHAKE}
        self._shake(seen, shortened({name: json_value(each) for name, each in found.items() if each is not None}))
        seen.is_opened = bool(decoded.snapshot.is_open)

    def _shake(self, seen: SeenConnection, handshake: dict[str, Any]) -> None:
        seen.handshake = handshake
        self._parties.pop(seen.stream, None)

    def _known_client(self, stream: int, connection: str) -> Client:
        client, _ = self._clients.get(stream, (None, 0))
        return client or Client.named(stream, connection)

    def note(self, stream: int, events: Iterable[TraceEvent]) -> None:
        """Record the trace events of one connection."""
        seen = self.seen.get(stream)
        if seen is None:
            return
        for event in events:
            if type(event) not in _NOTED:
                continue
            match event:
                case ConnectionOpened():
                    self._shake(seen, _handshake(event))
                    seen.is_opened = True
                case ConnectionClosed():
                    by = closer(event)
                    cause = None if event.cause is None else shortened(method_arguments(event.cause))
                    seen.end = ConnectionEnd(
                        by=by, code=event.code, text=event.text, method=event.method, cause=cause, ts_ns=event.ts_ns
                    )
                case ChannelOpened():
                    seen.channels += 1
                case ChannelClosed():
                    seen.channels = max(0, seen.channels - 1)
                case BlockingStarted():
                    seen.is_blocked = True
                case BlockingEnded():
                    seen.is_blocked = False
                case HistoryLost(sender=None):
                    seen.is_joined = True

    def client_of(self, stream: int, connection: str, seq: int) -> Client:
        """Return the client as known before the row `seq`, for a reader that begins there."""
        client, learned_at = self._clients.get(stream, (None, 0))
        return client if client is not None and learned_at < seq else Client.named(stream, connection)

    def end_all(self, reason: str, now_ns: int) -> list[StreamEnded]:
        """Return an end for each open connection, when the proxy is gone."""
        return [
            StreamEnded(now_ns, each.stream, each.connection, reason) for each in self.seen.values() if each.is_open
        ]

    def _new(self, decoded: Decoded, seq: int) -> SeenConnection:
        self.seen.pop(decoded.stream, None)
        self._clients.pop(decoded.stream, None)
        self._parties.pop(decoded.stream, None)
        if len(self.seen) >= MAX_CONNECTIONS:
            ended = next((number for number, each in self.seen.items() if not each.is_open), next(iter(self.seen)))
            del self.seen[ended]
            self._clients.pop(ended, None)
            self._parties.pop(ended, None)
        seen = self.seen[decoded.stream] = SeenConnection(
            stream=decoded.stream,
            connection=decoded.connection,
            since_ns=decoded.ts_ns,
            last_ns=decoded.ts_ns,
            first_seq=seq,
            last_seq=seq,
        )
        return seen


def size_of(frames: Sequence[Frame] | Sequence[Amqp010Frame]) -> int:
    """Return the size of frames in bytes."""
    return chunk_of(frames).size


def _handshake(event: ConnectionOpened) -> dict[str, Any]:
    found = shortened(handshake(event))
    return found if event.latency_ns is None else {**found, "seconds": event.latency_ns / 1e9}
