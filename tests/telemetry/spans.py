"""A connection whose messages get spans: methods go in, as frames; spans come out."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.amqp091.wire import Table
from amqproxy.taps.note import NOTHING, Note
from amqproxy.telemetry.message_span import MessageSpan
from amqproxy.telemetry.sampler import Sampler
from amqproxy.telemetry.span_budget import SpanBudget
from amqproxy.telemetry.span_recorder import SpanRecorder
from tests.taps.trace.traced import Traced

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
TRACED = Properties(
    message_id="m-1",
    correlation_id="c-1",
    headers=Table({"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=x", "password": "secret"}),
)
"""The properties of a message that belongs to a trace."""


class Spans:
    """A trace with a recorder. `spans` are those that are complete; unless it is `joined`, `channels` are open."""

    def __init__(
        self, *channels: int, joined: bool = False, ratio: float = 1.0, most: int = 100, memory: int = 1 << 20
    ) -> None:
        self.traced = Traced(*(channels or (1,)), joined=joined)
        self.budget = SpanBudget(most, memory)
        self.dropped = 0
        self.recorder = SpanRecorder({"amqproxy.session": 7}, Sampler(ratio, lambda: 0.5), self.budget, self._drop)
        self.spans: list[MessageSpan] = []

    def _drop(self, count: int) -> None:
        self.dropped += count

    def client(self, *methods: Method, note: Note = NOTHING, channel: int = 1, **content: Any) -> list[MessageSpan]:
        """The client sends methods in one read; the spans that are complete with them."""
        return self._take(CLIENT, methods, note, channel, content)

    def server(self, *methods: Method, note: Note = NOTHING, channel: int = 1, **content: Any) -> list[MessageSpan]:
        """The same from the broker."""
        return self._take(SERVER, methods, note, channel, content)

    def end(self, reason: str = "over") -> list[MessageSpan]:
        self.recorder.note_end(reason)
        return self._keep(self.recorder.record(self.traced.end()))

    def gap(self) -> list[MessageSpan]:
        return self._keep(self.recorder.record(self.traced.gap()))

    def _take(
        self, sender: Peer, methods: tuple[Method, ...], note: Note, channel: int, content: dict[str, Any]
    ) -> list[MessageSpan]:
        feed = self.traced.client if sender is CLIENT else self.traced.server
        return self._keep(self.recorder.record(feed(*methods, channel=channel, **content), note))

    def _keep(self, spans: list[MessageSpan]) -> list[MessageSpan]:
        self.spans += spans
        return spans


def story(span: MessageSpan) -> tuple[str, str, str]:
    """What it is of, what became of that, and what is wrong with it."""
    return span.name, span.outcome, "" if span.failure is None else span.failure.description


def milliseconds(span: MessageSpan) -> float:
    return (span.end_ns - span.start_ns) / 1e6
