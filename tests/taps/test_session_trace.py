"""The trace of what taps are shown, and who has to forget when traces take too much memory."""

import msgspec
import pytest

from amqproxy.amqp091.methods import (
    BasicAck,
    BasicDeliver,
    BasicPublish,
    BasicQos,
    BasicReturn,
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
)
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.observer import Observer, ObserverSettings
from amqproxy.taps.session_trace import SessionTrace, to_relieve
from amqproxy.taps.trace.amqp091.connection_trace import Trace
from amqproxy.taps.trace.events import (
    ChannelClosed,
    ConnectionClosed,
    DeliveriesSettled,
    MessagePublished,
    MessageReturned,
    PublishesSettled,
    Settlement,
    StateRestored,
    TraceEvent,
)
from amqproxy.taps.trace.open_tags import Span
from amqproxy.taps.trace.snapshot import ChannelSnapshot, ConnectionSnapshot
from amqproxy.taps.trace.steps import Steps
from tests.taps.trace.traced import frames_of


def test_what_a_rule_ends_is_at_its_end() -> None:
    trace = SessionTrace()
    trace.feed_protocol_header(0)
    for sender, method in ((CLIENT, ChannelOpen()), (SERVER, ChannelOpenOk()), (CLIENT, ConfirmSelect(no_wait=True))):
        trace.feed_noted(sender, frames_of(1, method), 1)
    head = frames_of(1, BasicPublish(), body=b"hello")[:1]
    assert trace.feed_noted(CLIENT, head, 2, NOTHING) == []
    (published,) = trace.feed_noted(CLIENT, frames_of(1, BasicPublish())[:1], 3, Note(leg="client", verdict="refused"))
    assert isinstance(published, MessagePublished)
    closed, settled = trace.feed_noted(SERVER, frames_of(1, ChannelClose(reply_code=403)), 4, Note(leg="client"))
    assert isinstance(closed, ChannelClosed)
    assert isinstance(settled, PublishesSettled)
    assert settled.outcome is Settlement.OPEN


def test_a_publish_that_a_rule_rewrote_comes_back_as_the_broker_has_received_it() -> None:
    trace = SessionTrace()
    for sender, method in ((CLIENT, ChannelOpen()), (SERVER, ChannelOpenOk())):
        trace.feed_noted(sender, frames_of(1, method), 1)
    for key, note in (("a", Note(leg="client", verdict="changed")), ("c", NOTHING)):
        publish = BasicPublish(exchange="e", routing_key=key, mandatory=True)
        *head, body = frames_of(1, publish, body=b"hello")
        trace.feed_noted(CLIENT, head, 2, note)
        trace.feed_noted(CLIENT, [body], 2, note._replace(leg=""))
    returns = [BasicReturn(312, "NO_ROUTE", "e", key) for key in ("b", "c", "b")]
    found = [event for each in returns for event in trace.feed_noted(SERVER, frames_of(1, each, body=b"hello"), 3)]
    assert [event.number for event in found if isinstance(event, MessageReturned)] == [1, 2, None]


class User:
    def __init__(self, memory_used: int) -> None:
        self.memory_used = memory_used


def test_who_takes_most_has_to_forget_first() -> None:
    users = [User(size) for size in (10, 50, 30)]
    relieved = []
    for user in to_relieve(users, 50):
        relieved.append(user.memory_used)
        user.memory_used //= 2
    assert relieved == [50, 30]  # 90 bytes, then 65, then 50
    assert list(to_relieve(users, 1000)) == []


def test_a_restored_connection_has_outcomes_but_no_findings_of_what_came_before() -> None:
    snapshot = ConnectionSnapshot(
        ts_ns=10,
        protocol="0-9-1",
        channels=(ChannelSnapshot(number=1, mode="confirm", published=3, delivered=2, unacked=(Span(2, 2, 4),)),),
    )
    observer = Observer(1, "client", ObserverSettings(findings=True))
    assert observer.restore(snapshot) == []
    assert observer.feed(CLIENT, frames_of(1, BasicAck(2)), 20) == []
    observer.feed(CLIENT, frames_of(1, BasicPublish(routing_key="q"), body=b"x"), 30)
    (published,) = observer.feed(SERVER, frames_of(1, BasicAck(4)), 40)
    assert isinstance(published, MessageRecord)
    assert (published.outcome, published.number, published.seconds) == ("confirmed", 4, 1e-8)
    found = [each for each in observer.feed(CLIENT, frames_of(1, BasicAck(2)), 50) if isinstance(each, Finding)]
    assert [each.text for each in found] == ["delivery tag 2 is acked though it is not open"]


def test_a_trace_that_knows_its_connection_ignores_a_snapshot() -> None:
    trace = SessionTrace()
    trace.feed_protocol_header(1)
    assert trace.restore(ConnectionSnapshot(ts_ns=2, protocol="0-9-1")) == []
    assert trace.snapshot(3).channels == ()


IMPOSSIBLE = [
    ConnectionSnapshot(ts_ns=2, protocol="1.0"),
    ConnectionSnapshot(ts_ns=2, protocol="0-10"),
    ConnectionSnapshot(ts_ns=2, protocol="0-9-1", closing=("nobody",)),
    ConnectionSnapshot(ts_ns=2, protocol="0-9-1", channels=(ChannelSnapshot(number=1), ChannelSnapshot(number=1))),
    ConnectionSnapshot(
        ts_ns=2, protocol="0-9-1", closing=("client",), channels=(ChannelSnapshot(number=1, mode="dtx"),)
    ),
]


@pytest.mark.parametrize("snapshot", IMPOSSIBLE)
def test_an_impossible_snapshot_leaves_the_trace_as_it_was(snapshot: ConnectionSnapshot) -> None:
    trace = SessionTrace()
    trace.feed_noted(SERVER, frames_of(1, BasicDeliver("tag", 7), body=b"x"), 1)
    before = trace.snapshot(3)
    assert trace.restore(snapshot) == []
    assert trace.snapshot(3) == before
    (settled,) = trace.feed_noted(CLIENT, frames_of(1, BasicAck(7)), 4)
    assert isinstance(settled, DeliveriesSettled)
    assert (trace.channels[1].unacked, settled.spans) == (0, (Span(7, 7, 1, "tag"),))
    assert [type(each) for each in trace.end(5, "over")] == [ConnectionClosed]


def test_before_its_first_frame_a_trace_takes_no_impossible_snapshot() -> None:
    trace = SessionTrace()
    for each in IMPOSSIBLE:
        if each.protocol != "0-10":
            assert trace.restore(each) == []
    assert trace.restore(None) == []
    assert len(trace.restore(ConnectionSnapshot(ts_ns=2, protocol="0-10"))) == 1


def test_frames_have_their_protocol_whatever_the_snapshot_says() -> None:
    trace = SessionTrace()
    trace.restore(ConnectionSnapshot(ts_ns=1, protocol="0-10"))
    trace.feed_noted(CLIENT, frames_of(1, BasicQos()), 2)
    assert trace.snapshot(3).protocol == "0-9-1"


def test_a_fresh_trace_takes_the_restored_one_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    restored: list[int] = []
    restoring = Trace.restoring

    def counting(trace: Trace, snapshot: ConnectionSnapshot) -> Steps[list[TraceEvent]]:
        restored.append(len(snapshot.channels))
        return restoring(trace, snapshot)

    monkeypatch.setattr(Trace, "restoring", counting)
    shown: list[TraceEvent] = []
    trace = SessionTrace()
    trace.listen(lambda events, sender, number: shown.extend(events))
    snapshot = ConnectionSnapshot(ts_ns=1, protocol="0-9-1", channels=(ChannelSnapshot(number=1, mode="confirm"),))
    events = trace.restore(snapshot)
    assert [type(each) for each in events] == [StateRestored]
    assert shown == events
    assert restored == [1]
    trace.gap(CLIENT, 2, "lost")
    trace.restore(msgspec.structs.replace(snapshot, ts_ns=3))
    assert restored == [1, 1, 1]
    assert isinstance(shown[-1], StateRestored)


def test_a_listener_is_shown_a_restored_state_with_its_facts() -> None:
    trace, known = SessionTrace(), []
    trace.listen(lambda events, sender, number: known.append(trace.facts))
    trace.restore(ConnectionSnapshot(ts_ns=1, protocol="0-10"))
    assert known == [trace.facts]
