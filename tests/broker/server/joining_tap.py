"""A tap that sees all of the broker's connections, and one beside it that joins later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amqproxy.broker.server.connection_tap import ConnectionTap
from amqproxy.peer import Peer
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.session_trace import SessionTrace
from amqproxy.taps.tap import TappedSession
from amqproxy.taps.trace.events import (
    DeliveriesSettled,
    MessageDelivered,
    MessagePublished,
    PublishesSettled,
    StateRestored,
    TraceEvent,
)
from amqproxy.taps.trace.snapshot import ConnectionSnapshot
from tests.proxy.recording_tap import Audience

Claim = tuple[Any, ...]


class JoiningTap(Audience):
    """Traces of one connection: `whole` from its beginning, `joined` from the call of `join` on."""

    def __init__(self) -> None:
        super().__init__()
        self.ts_ns = 0
        self.whole: list[TraceEvent] = []
        self.joined: list[TraceEvent] = []
        self.snapshot: ConnectionSnapshot | None = None
        self._whole, self._joined = SessionTrace(body=100), SessionTrace(body=100)
        self._known_from = 0

    def join(self) -> None:
        self.joins += 1

    def saw_protocol_header(self, session: TappedSession, data: bytes, sender: Peer = Peer.CLIENT) -> None:
        self._whole.feed_protocol_header(0)

    def saw_frames(self, session: TappedSession, sender: Peer, frames: Sequence[Any], note: Note = NOTHING) -> None:
        self.ts_ns += 1
        self.whole += self._whole.feed_noted(sender, frames, self.ts_ns)
        if self.joins:
            self.joined += self._joined.feed_noted(sender, frames, self.ts_ns)

    def saw_snapshot(self, session: TappedSession, snapshot: ConnectionSnapshot) -> None:
        assert ConnectionSnapshot.from_bytes(snapshot.to_bytes()) == snapshot
        self.snapshot = snapshot
        self.joined += self._joined.restore(snapshot)
        self._known_from = len(self.whole)

    @property
    def claims(self) -> tuple[list[Claim], list[Claim]]:
        """Return the claims of both traces about messages since the snapshot, all of which were seen."""
        places = [place for place, each in enumerate(self.joined) if isinstance(each, StateRestored)]
        return claims(self.whole[self._known_from :]), claims(self.joined[places[-1] :])


def claims(events: Sequence[TraceEvent]) -> list[Claim]:
    """Return the claims of events about messages, without times, and without the numbers that nobody sends."""
    found: list[Claim] = []
    for each in events:
        match each:
            case MessagePublished():
                found.append(("publish", each.channel, each.confirm_tag, each.awaits, each.body))
            case MessageDelivered():
                found.append(("deliver", each.channel, each.method.delivery_tag, each.queue, each.awaits, each.body))
            case PublishesSettled():  # those of 0-10 are numbered by what was seen of them
                count = sum(span.count for span in each.spans)
                found.append(("settled", each.channel, str(each.outcome), count, each.is_unknown_tag))
            case DeliveriesSettled():
                tags = [tag for span in each.spans for tag in range(span.first, span.last + 1)]
                found.append(("settled", each.channel, str(each.outcome), tags, each.is_unknown_tag))
    return found


class TappedConnection:
    """A connection of the broker whose bytes a tap is shown."""

    def __init__(self, connection: Any, tap: JoiningTap) -> None:
        self._connection = connection
        self._shown = ConnectionTap(tap, 1, connection.name, is_tls=False, metrics=Metrics())
        self._shown.client = lambda: connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def feed(self, data: bytes, now: float) -> None:
        self._shown.received(data)
        self._connection.feed(data, now)

    def take_output(self) -> bytes:
        data: bytes = self._connection.take_output()
        if data:
            self._shown.sent([data])
        return data
