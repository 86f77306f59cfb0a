"""The connections of a source, as far as what passed shows them: how each was opened, and how it ended."""

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
from amqproxy.rules.client_info import learned_client, updated_amqp010_client
from amqproxy.rules.context import Client
from amqproxy.taps.amqp010.record import plain
from amqproxy.taps.frame_chunk import FrameChunk
from amqproxy.taps.message_recorder import handshake
from amqproxy.taps.method_arguments import method_arguments
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
from dashboard.shortening import shortened

_INTRODUCING = frozenset({ConnectionStartOk.index, ConnectionSecureOk.index, ConnectionOpen.index})

MAX_CONNECTIONS = 20_000
"""Connections that are known; those that ended first are forgotten."""


class ConnectionEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a connection ended: who closed it (None where no peer did), with what, and because of which command."""

    by: str | None
    code: int
    text: str
    method: str | None = None
    cause: dict[str, Any] | None = None
    ts_ns: int = 0


class SeenConnection(msgspec.Struct, kw_only=True):
    """One connection. `protocol` is None until there is a frame of it.

    `handshake` is what both peers said and agreed on, None where its beginning was not seen.
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
    is_joined: bool = False
    is_blocked: bool = False
    is_open: bool = True
    channels: int = 0
    end: ConnectionEnd | None = None
    ended: str | None = None
    """Why both directions are over."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


class Connections:
    """All connections of a source, by their numbers; of those with the same number the newest.

    Also what is known of their clients, for filters that begin in the middle.
    """

    def __init__(self) -> None:
        self.seen: dict[int, SeenConnection] = {}
        self._clients: dict[int, tuple[Client, int]] = {}

    def take(self, decoded: Decoded, seq: int, count: int) -> None:
        """Take what passed, in the rows from `seq` on."""
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
            seen.bytes[decoded.sender] += size_of(decoded.frames)

    def learn(self, decoded: Amqp091DecodedFrames, frames: Iterable[Frame], seq: int) -> None:
        """Know the client by what it sends on channel 0."""
        for frame in frames:
            if frame.channel == 0 and frame.kind == METHOD:
                before = self._known_client(decoded.stream, decoded.connection)
                after = learned_client(before, Peer(decoded.sender), frame)
                if after is not before:
                    self._clients[decoded.stream] = (after, seq)

    def learn_amqp010(self, decoded: Amqp010DecodedFrames, seq: int) -> None:
        """Know a client of 0-10 by the controls with which it logs in, where each is in one frame."""
        if decoded.sender != CLIENT:
            return
        for frame in decoded.frames:
            if frame.index in _INTRODUCING and frame.is_whole_segment:
                before = self._known_client(decoded.stream, decoded.connection)
                with suppress(ProtocolError):  # what is malformed is reported elsewhere
                    self._clients[decoded.stream] = (updated_amqp010_client(before, frame.method, plain), seq)

    def _known_client(self, stream: int, connection: str) -> Client:
        client, _ = self._clients.get(stream, (None, 0))
        return client or Client.named(stream, connection)

    def note(self, stream: int, events: Iterable[TraceEvent]) -> None:
        """Take what happened on a connection."""
        seen = self.seen.get(stream)
        if seen is None:
            return
        for event in events:
            match event:
                case ConnectionOpened():
                    seen.handshake = _handshake(event)
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
        """What is known of a client, for a reader that begins at this row: nothing that comes only behind it."""
        client, learned_at = self._clients.get(stream, (None, 0))
        return client if client is not None and learned_at < seq else Client.named(stream, connection)

    def end_all(self, reason: str, now_ns: int) -> list[StreamEnded]:
        """The ends of all connections that are open: their proxy is gone."""
        return [
            StreamEnded(now_ns, each.stream, each.connection, reason) for each in self.seen.values() if each.is_open
        ]

    def _new(self, decoded: Decoded, seq: int) -> SeenConnection:
        self.seen.pop(decoded.stream, None)
        self._clients.pop(decoded.stream, None)
        if len(self.seen) >= MAX_CONNECTIONS:
            ended = next((number for number, each in self.seen.items() if not each.is_open), next(iter(self.seen)))
            del self.seen[ended]
            self._clients.pop(ended, None)
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
    """The bytes of these frames."""
    if isinstance(frames, FrameChunk):
        return len(frames.data)
    return sum([each.length() for each in frames])


def _handshake(event: ConnectionOpened) -> dict[str, Any]:
    found = shortened(handshake(event))
    return found if event.latency_ns is None else {**found, "seconds": event.latency_ns / 1e9}
