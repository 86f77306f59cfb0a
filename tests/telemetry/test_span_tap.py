"""The tap that makes spans of what sessions relay."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import pytest
from structlog.testing import capture_logs

from amqproxy.amqp091.errors import FrameError
from amqproxy.amqp091.methods import BasicAck, BasicPublish, ChannelOpen, ChannelOpenOk, ConfirmSelect, Method
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.taps.note import Note
from amqproxy.taps.session_trace import SESSIONS_A_STEP
from amqproxy.telemetry.message_span import MessageSpan
from amqproxy.telemetry.sampler import Sampler
from amqproxy.telemetry.span_budget import SpanBudget
from amqproxy.telemetry.span_queue import SpanQueue
from amqproxy.telemetry.span_tap import SpanTap, TracedSession, server_attributes
from tests.taps.sessions import Session
from tests.taps.trace.traced import frames_of
from tests.telemetry.spans import story


@dataclass
class Tapped:
    """Sessions under the tap, each with channel 1 in confirm mode once it is begun."""

    upstream: str = "127.0.0.1:5672"

    def __post_init__(self) -> None:
        self.budget = SpanBudget(100, 1 << 20)
        self.queue = SpanQueue(self.budget)
        self.dropped = 0
        sampler = Sampler(1.0, lambda: 0.0)
        self.tap = SpanTap(self.queue, sampler, self.budget, self._drop, upstream=self.upstream)

    def _drop(self, count: int) -> None:
        self.dropped += count

    def begin(self, session: Session) -> None:
        self.tap.saw_protocol_header(session, HEADER)
        self.saw(session, CLIENT, ChannelOpen())
        self.saw(session, SERVER, ChannelOpenOk())
        self.saw(session, CLIENT, ConfirmSelect(no_wait=True))

    def saw(self, session: Session, sender: Peer, *methods: Method, note: Note | None = None, **content: Any) -> None:
        frames = [frame for method in methods for frame in frames_of(1, method, **content)]
        self.tap.saw_frames(session, sender, frames, note or Note())

    def spans(self) -> list[MessageSpan]:
        return self.queue.take()


PUBLISH = BasicPublish(exchange="e")


def test_from_the_publish_to_the_end_of_the_session() -> None:
    tapped, session = Tapped(), Session(name="[::1]:1234-[::1]:5673")
    tapped.begin(session)
    tapped.saw(session, CLIENT, PUBLISH, PUBLISH)
    tapped.saw(session, SERVER, BasicAck(delivery_tag=1))
    tapped.tap.saw_end(session, "drained")
    tapped.tap.saw_end(session, "drained")
    spans = tapped.spans()
    assert [story(each) for each in spans] == [
        ("publish e", "confirmed", ""),
        ("publish e", "open", "open when its connection ended: drained"),
    ]
    assert spans[0].connection == {
        "amqproxy.session": 7,
        "client.address": "::1",
        "client.port": 1234,
        "server.address": "127.0.0.1",
        "server.port": 5672,
        "network.peer.address": "127.0.0.1",
        "network.peer.port": 5672,
    }


def test_what_rules_changed_is_as_the_client_sent_it() -> None:
    tapped, session = Tapped(), Session()
    tapped.begin(session)
    tapped.saw(session, CLIENT, BasicPublish(exchange="before"), note=Note(leg="client", rules=("r",)))
    tapped.saw(session, CLIENT, BasicPublish(exchange="after"), note=Note(leg="upstream", rules=("r",)))
    tapped.saw(session, SERVER, BasicAck(delivery_tag=1))
    (span,) = tapped.spans()
    assert (span.exchange, span.rules) == ("before", ("r",))


def test_a_violation_makes_what_is_open_unknown() -> None:
    tapped, session = Tapped(), Session()
    tapped.begin(session)
    tapped.saw(session, CLIENT, PUBLISH)
    tapped.tap.saw_violation(session, CLIENT, FrameError("no frame"))
    (span,) = tapped.spans()
    assert span.outcome == "unknown"


def test_a_session_that_cannot_be_traced_harms_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    tapped, one, other = Tapped(), Session(1), Session(2)
    for session in (one, other):
        tapped.begin(session)
        tapped.saw(session, CLIENT, PUBLISH)
    with monkeypatch.context() as patch, capture_logs() as log:
        patch.setattr(TracedSession, "feed", lambda traced, *arguments: 1 / 0)
        tapped.saw(one, SERVER, BasicAck(delivery_tag=1))
    assert [(each["event"], each["session"]) for each in log if each["log_level"] == "error"] == [
        ("session not traced", 1)
    ]
    for session in (one, other):
        tapped.saw(session, SERVER, BasicAck(delivery_tag=1))
        tapped.tap.saw_end(session, "over")
    (span,) = tapped.spans()
    assert span.connection["amqproxy.session"] == 2
    assert (tapped.dropped, tapped.budget.spans) == (1, 1)  # the other's, which waits


def test_the_traces_are_bounded_together() -> None:
    tapped, session = Tapped(), Session()
    tapped.begin(session)
    tapped.saw(session, CLIENT, PUBLISH)
    assert len(list(tapped.tap.relieve(1 << 20))) == 0
    deque(tapped.tap.relieve(0), maxlen=0)
    (span,) = tapped.spans()
    assert span.outcome == "unknown"


def test_very_many_traces_are_looked_at_in_steps() -> None:
    tapped = Tapped()
    for number in range(2 * SESSIONS_A_STEP + 1):
        tapped.tap.saw_protocol_header(Session(number), HEADER)
    assert len(list(tapped.tap.relieve(1 << 20))) == 2


@pytest.mark.parametrize(
    ("upstream", "address", "peer"),
    [("broker", None, None), ("rabbit:5672", "rabbit", None), ("[::1]:5672", "::1", "::1")],
)
def test_the_address_of_the_broker(upstream: str, address: str | None, peer: str | None) -> None:
    found = server_attributes(upstream)
    assert (found.get("server.address"), found.get("network.peer.address")) == (address, peer)
