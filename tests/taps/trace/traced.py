"""A connection under trace: methods go in, as frames; what happened comes out."""

from __future__ import annotations

from typing import Any, TypeVar

from amqproxy.amqp091.frame import BODY, HEADER, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import (
    ChannelOpen,
    ChannelOpenOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from amqproxy.amqp091.properties import NO_PROPERTIES, ContentHeader, Properties
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.taps.trace.amqp091.connection_trace import Trace
from amqproxy.taps.trace.events import TraceEvent

E = TypeVar("E", bound=TraceEvent)


def frames_of(channel: int, method: Method, properties: Properties = NO_PROPERTIES, body: bytes = b"") -> list[Frame]:
    """A method as frames, with its content if it carries one; bodies are cut after 1,000 bytes."""
    frames = [Frame(encode_method(channel, method))]
    if method.carries_content:
        frames.append(Frame(encode_frame(HEADER, channel, ContentHeader(len(body), properties).encode())))
        frames += [
            Frame(encode_frame(BODY, channel, body[start : start + 1000])) for start in range(0, len(body), 1000)
        ]
    return frames


class Traced:
    """A trace with a clock that each read moves on by a millisecond.

    `events` are all that it has given so far. Unless it is `joined` in the middle, the connection is open, and so are
    `channels`; what happened until then is not in `events`.
    """

    def __init__(self, *channels: int, joined: bool = False, **options: Any) -> None:
        self.trace = Trace(**options)
        self.ts_ns = 0
        self.events: list[TraceEvent] = []
        if not joined:
            self.trace.feed_protocol_header(self.ts_ns)
            self.server(ConnectionStart(), channel=0)
            self.client(ConnectionStartOk(), channel=0)
            self.server(ConnectionTune(), channel=0)
            self.client(ConnectionTuneOk(heartbeat=60), channel=0)
            self.client(ConnectionOpen("/"), channel=0)
            self.server(ConnectionOpenOk(), channel=0)
            for number in channels:
                self.client(ChannelOpen(), channel=number)
                self.server(ChannelOpenOk(), channel=number)
            self.events.clear()

    def client(self, *methods: Method, channel: int = 1, **content: Any) -> list[TraceEvent]:
        """The client sends methods in one read, each with this content if it carries one; what happens with them."""
        return self._feed(CLIENT, methods, channel, content)

    def server(self, *methods: Method, channel: int = 1, **content: Any) -> list[TraceEvent]:
        """The same from the broker."""
        return self._feed(SERVER, methods, channel, content)

    def gap(self, sender: Peer = CLIENT, *, is_other_whole: bool = False) -> list[TraceEvent]:
        self.ts_ns += 1_000_000
        return self._note(self.trace.gap(sender, self.ts_ns, "missing", is_other_whole=is_other_whole))

    def end(self) -> list[TraceEvent]:
        self.ts_ns += 1_000_000
        return self._note(self.trace.end(self.ts_ns, "over"))

    def of(self, kind: type[E]) -> list[E]:
        """The events of one kind so far."""
        return [each for each in self.events if isinstance(each, kind)]

    def _feed(self, sender: Peer, methods: tuple[Method, ...], channel: int, content: Any) -> list[TraceEvent]:
        self.ts_ns += 1_000_000
        frames = [frame for method in methods for frame in frames_of(channel, method, **content)]
        return self._note(self.trace.feed(sender, frames, self.ts_ns))

    def _note(self, events: list[TraceEvent]) -> list[TraceEvent]:
        self.events += events
        return events
