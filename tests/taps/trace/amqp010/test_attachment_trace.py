"""Events of one 0-10 session."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp010.commands import (
    DtxCommit,
    DtxEnd,
    DtxPrepare,
    DtxRollback,
    DtxSelect,
    DtxStart,
    ExecutionException,
    ExecutionResult,
    ExecutionSync,
    MessageAccept,
    MessageCancel,
    MessageFlow,
    MessageReject,
    MessageRelease,
    MessageTransfer,
    QueueDeclare,
    QueueDelete,
    QueueQuery,
    TxCommit,
    TxRollback,
    TxSelect,
)
from amqproxy.amqp010.controls import (
    SessionAttach,
    SessionAttached,
    SessionCommandPoint,
    SessionCompleted,
    SessionDetach,
    SessionDetached,
    SessionGap,
    SessionRequestTimeout,
    SessionTimeout,
)
from amqproxy.amqp010.properties import Header
from amqproxy.amqp010.results import QueueQueryResult, XaResult, Xid
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.amqp010.transfers import TransferDelivery, TransferPublish, TransferReturn
from amqproxy.taps.message_recorder import MessageRecorder
from amqproxy.taps.trace.events import (
    ChannelClosed,
    ChannelOpened,
    DeliveriesSettled,
    HistoryLost,
    MessageDelivered,
    MessagePublished,
    MessageReturned,
    PublishesSettled,
    RequestAnswered,
    RequestSent,
    RequestUnanswered,
    Settlement,
    StateRestored,
)
from amqproxy.taps.trace.open_tags import Span
from amqproxy.taps.trace.snapshot import ChannelSnapshot, ConnectionSnapshot, ContentSnapshot, RequestSnapshot
from tests.taps.trace.amqp010.traced import TracedAmqp010, frames_of, ids, published

XID = Xid(format=1, global_id=b"g", branch_id=b"b")


def outcomes(traced: TracedAmqp010) -> list[tuple[str, int, int]]:
    """Return the outcomes of publishes: the outcome, and the first and the last of each range."""
    return [(each.outcome, span.first, span.last) for each in traced.of(PublishesSettled) for span in each.spans]


def settled(traced: TracedAmqp010) -> list[tuple[str, int, int]]:
    """Like `outcomes`, for deliveries."""
    return [(each.outcome, span.first, span.last) for each in traced.of(DeliveriesSettled) for span in each.spans]


# --- publishes


def test_a_publish_is_confirmed_once_it_is_completed() -> None:
    traced = TracedAmqp010(1)
    transfer, header = published("x", "k")
    (event,) = traced.client(transfer, header=header, body=b"hello")
    assert isinstance(event, MessagePublished)
    assert isinstance(event.method, TransferPublish)
    assert (event.method.exchange, event.method.routing_key, event.method.mandatory) == ("x", "k", False)
    assert (event.number, event.confirm_tag, event.awaits, event.size) == (1, 0, True, 5)
    sent_ns = traced.ts_ns
    assert traced.trace.channels[1].unconfirmed == 1
    (done,) = traced.complete(0)
    assert done == PublishesSettled(
        ts_ns=traced.ts_ns, channel=1, epoch=1, outcome=Settlement.CONFIRMED, spans=(Span(1, 1, sent_ns),)
    )
    assert traced.complete((0, 0)) == []
    assert traced.trace.channels[1].unconfirmed == 0


def test_publishes_are_numbered_apart_from_other_commands() -> None:
    traced = TracedAmqp010(1)
    traced.publish()
    traced.client(ExecutionSync())
    traced.publish()
    assert [each.confirm_tag for each in traced.of(MessagePublished)] == [0, 2]
    traced.complete((0, 2))
    assert outcomes(traced) == [("confirmed", 1, 1), ("confirmed", 2, 2)]


def test_a_publish_is_confirmed_by_accept() -> None:
    traced = TracedAmqp010(1)
    traced.publish(accept_mode=0)
    traced.server(MessageAccept(transfers=ids(0)))
    traced.complete(0)
    assert outcomes(traced) == [("confirmed", 1, 1)]


def test_an_unroutable_publish_is_returned() -> None:
    traced = TracedAmqp010(1)
    traced.publish(accept_mode=0)
    returned, refused = traced.server(MessageReject(transfers=ids(0), code=1, text="no queue"))
    assert isinstance(returned, MessageReturned)
    assert isinstance(returned.method, TransferReturn)
    assert (returned.number, returned.size, returned.method.routing_key) == (1, 5, "q")
    assert (returned.method.reply_code, returned.method.reply_text) == (1, "no queue")
    assert isinstance(refused, PublishesSettled)
    assert refused.outcome is Settlement.NACKED
    traced.complete(0)
    assert outcomes(traced) == [("nacked", 1, 1)]


@pytest.mark.parametrize("command", [MessageReject(transfers=ids(0), code=0), MessageRelease(transfers=ids(0))])
def test_a_publish_that_the_server_does_not_take_is_nacked(command: MessageReject | MessageRelease) -> None:
    traced = TracedAmqp010(1)
    traced.publish(accept_mode=0)
    traced.server(command)
    assert outcomes(traced) == [("nacked", 1, 1)]
    assert not traced.of(MessageReturned)


def test_a_large_body_comes_in_frames_and_its_beginning_is_kept() -> None:
    traced = TracedAmqp010(1, body=1500, digests=True)
    traced.publish(body=b"x" * 5000)
    (event,) = traced.of(MessagePublished)
    assert (event.size, event.body, len(event.digest)) == (5000, b"x" * 1500, 16)


def test_the_ids_of_commands_roll_over() -> None:
    traced = TracedAmqp010()
    traced.attach(1, point=0xFFFFFFFF)
    traced.client(TxSelect())  # from here on its mode is known, though it was attached before
    traced.publish()
    traced.publish()
    traced.client(TxCommit())
    traced.complete((0xFFFFFFFF, 2))
    assert outcomes(traced) == [("committed", 1, 1), ("committed", 2, 2)]


# --- deliveries


def test_a_delivery_is_of_the_queue_of_its_subscription_and_settled_by_accept() -> None:
    traced = TracedAmqp010(1)
    traced.subscribe("q", "d")
    (event,) = traced.deliver("d")
    assert isinstance(event, MessageDelivered)
    assert isinstance(event.method, TransferDelivery)
    assert (event.method.delivery_tag, event.method.consumer_tag, event.queue) == (0, "d", "q")
    assert (event.method.exchange, event.method.routing_key, event.method.redelivered) == ("x", "k", True)
    assert event.awaits is True
    came_ns = traced.ts_ns
    assert traced.trace.channels[1].is_unacked(0)
    (done,) = traced.accept(0)
    assert done == DeliveriesSettled(
        ts_ns=traced.ts_ns,
        channel=1,
        epoch=1,
        outcome=Settlement.ACKED,
        spans=(Span(0, 0, came_ns, "d"),),
        tag=0,
        command="message.accept",
    )


def test_deliveries_are_released_and_rejected() -> None:
    traced = TracedAmqp010(1)
    traced.subscribe()
    for _ in range(4):
        traced.deliver()
    traced.release((1, 2))
    traced.reject(0, 3)
    assert settled(traced) == [("recovered", 1, 1), ("recovered", 2, 2), ("rejected", 0, 0), ("rejected", 3, 3)]
    assert [each.requeue for each in traced.of(DeliveriesSettled)] == [True, False]


def test_with_accept_mode_none_no_settlement_is_awaited() -> None:
    traced = TracedAmqp010(1)
    traced.subscribe(accept_mode=1)
    (event,) = traced.deliver(accept_mode=1)
    assert isinstance(event, MessageDelivered)
    assert (event.awaits, event.outcome) == (False, "auto-acked")
    assert traced.trace.channels[1].unacked == 0


def test_what_is_browsed_stays_in_its_queue() -> None:
    traced = TracedAmqp010(1)
    (browsed,) = traced.deliver(accept_mode=1, acquire_mode=1)
    (may_be_acquired,) = traced.deliver(acquire_mode=1)
    assert isinstance(browsed, MessageDelivered)
    assert isinstance(may_be_acquired, MessageDelivered)
    assert (browsed.awaits, browsed.outcome) == (False, "browsed")
    assert (may_be_acquired.awaits, may_be_acquired.outcome) == (True, None)
    assert traced.trace.channels[1].unacked == 1


def test_of_a_delivery_that_is_sent_again_the_first_ends_before_it() -> None:
    traced = TracedAmqp010(1)
    traced.subscribe()
    traced.deliver()
    traced.server(SessionCommandPoint(command_id=0, command_offset=0))
    events = traced.deliver()
    assert [type(each) for each in events] == [DeliveriesSettled, MessageDelivered]
    assert settled(traced) == [("unknown", 0, 0)]
    recorder = MessageRecorder(0, "a-b")
    records = recorder.record([*traced.events, *traced.accept(0)])
    assert [each.outcome for each in records if each.type == "deliver"] == ["unknown", "acked"]


def test_what_is_accepted_twice_is_unknown() -> None:
    traced = TracedAmqp010(1)
    traced.subscribe()
    traced.deliver()
    traced.deliver()
    traced.accept(0)
    (event,) = traced.accept((0, 1))
    assert isinstance(event, DeliveriesSettled)
    assert (event.is_unknown_tag, event.tag, event.multiple) == (True, 0, True)
    assert [(span.first, span.last) for span in event.spans] == [(1, 1)]


@given(
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 3)), max_size=3),
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 3)), min_size=1, max_size=4),
)
def test_the_first_that_is_not_open_is_found(before: list[tuple[int, int]], after: list[tuple[int, int]]) -> None:
    traced = TracedAmqp010(1)
    traced.subscribe()
    for _ in range(10):
        traced.deliver()
    traced.trace.feed(SERVER, frames_of(1, *_delivery()) + frames_of(1, *_delivery()), traced.ts_ns)
    held = set(range(12))
    for first, more in before:
        traced.accept((first, min(first + more, 11)))
        held -= set(range(first, first + more + 1))
    (event,) = traced.accept(*[(first, first + more) for first, more in after])
    unknown = [number for first, more in after for number in range(first, first + more + 1) if number not in held]
    assert isinstance(event, DeliveriesSettled)
    assert event.is_unknown_tag is bool(unknown)
    assert not unknown or event.tag == unknown[0]


def _delivery() -> tuple[MessageTransfer, Header, bytes]:
    return MessageTransfer(destination="d", accept_mode=0, acquire_mode=0), Header(), b"hello"


@pytest.mark.parametrize("completed", [[(0, 0), (2, 2)], [(0, 3)], [(0, 2000)]])
def test_what_is_completed_is_not_returned_any_more(completed: list[tuple[int, int]]) -> None:
    traced = TracedAmqp010(1)
    for _ in range(4):
        traced.publish(accept_mode=0)
    traced.complete(*completed)
    events = traced.server(MessageReject(transfers=ids((0, 3)), code=1))
    left = [number for number in range(4) if not any(first <= number <= last for first, last in completed)]
    assert [each.number for each in events if isinstance(each, MessageReturned)] == [number + 1 for number in left]


def test_a_cancelled_subscription_has_its_queue_until_it_has_ended() -> None:
    traced = TracedAmqp010(1)
    traced.subscribe("q", "d")
    traced.client(MessageCancel(destination="d"))
    traced.deliver("d")
    traced.complete((0, 1))
    traced.deliver("d")
    assert [each.queue for each in traced.of(MessageDelivered)] == ["q", None]


def resubscribed(traced: TracedAmqp010) -> None:
    """Subscribe to one, cancel and subscribe to two, all with one destination: commands 0, 1 and 2."""
    traced.subscribe("one", "d")
    traced.client(MessageCancel(destination="d"))
    traced.subscribe("two", "d")


@pytest.mark.parametrize("answered", [1, 2])
def test_a_delivery_is_of_either_subscription_with_its_destination_until_the_server_answers(answered: int) -> None:
    traced = TracedAmqp010(1)
    resubscribed(traced)
    traced.deliver("d")
    traced.complete(answered)
    traced.deliver("d")
    assert [each.queue for each in traced.of(MessageDelivered)] == [None, "two"]


def test_a_snapshot_has_the_subscriptions_that_a_delivery_may_be_of() -> None:
    """Also one by the proxy, which knows only the last subscription to a destination, and the unanswered commands."""
    whole = TracedAmqp010(1)
    resubscribed(whole)
    snapshot = whole.trace.snapshot(whole.ts_ns)
    [session] = snapshot.channels
    [*_, last] = session.consumers
    for consumers in (session.consumers, (msgspec.structs.replace(last, number=0),)):
        joined = TracedAmqp010(joined=True)
        session = msgspec.structs.replace(session, consumers=consumers)
        joined.trace.restore(msgspec.structs.replace(snapshot, channels=(session,)))
        joined.deliver("d")
        joined.complete(1)
        joined.deliver("d")
        assert [each.queue for each in joined.of(MessageDelivered)] == [None, "two"]


# --- requests


def test_a_command_is_answered_by_its_completion() -> None:
    traced = TracedAmqp010(1)
    assert traced.client(QueueDeclare(queue="q")) == []
    sent_ns = traced.ts_ns
    (event,) = traced.complete((0, 0))
    assert event == RequestAnswered(
        ts_ns=traced.ts_ns,
        channel=1,
        epoch=1,
        sender=CLIENT,
        request=QueueDeclare(queue="q"),
        reply=SessionCompleted(commands=ids(0)),
        latency_ns=traced.ts_ns - sent_ns,
    )


def test_a_result_answers_before_the_completion() -> None:
    traced = TracedAmqp010(1)
    traced.client(QueueQuery(queue="q"))
    (event,) = traced.result(0, QueueQueryResult(queue="q", message_count=3))
    assert isinstance(event, RequestAnswered)
    assert event.request == QueueQuery(queue="q")
    assert event.reply.name == "execution.result"
    assert traced.complete(0) == []


def test_credit_awaits_nothing() -> None:
    traced = TracedAmqp010(1)
    (event,) = traced.client(MessageFlow(destination="d", unit=0, value=10))
    assert isinstance(event, RequestSent)
    assert traced.complete(0) == []


def test_the_server_may_ask_too() -> None:
    traced = TracedAmqp010(1)
    traced.server(ExecutionSync())
    (event,) = traced.client(SessionCompleted(commands=ids(0)))
    assert isinstance(event, RequestAnswered)
    assert event.sender is SERVER


def test_a_timeout_is_granted() -> None:
    traced = TracedAmqp010(1)
    traced.client(SessionRequestTimeout(timeout=30))
    (event,) = traced.server(SessionTimeout(timeout=10))
    assert isinstance(event, RequestAnswered)
    assert event.request == SessionRequestTimeout(timeout=30)


# --- the end of a session


def test_an_exception_closes_and_names_its_cause() -> None:
    traced = TracedAmqp010(1)
    traced.subscribe()
    traced.deliver()
    traced.client(QueueDelete(queue="none"))
    (closed,) = traced.server(ExecutionException(error_code=404, command_id=1, description="no queue"))
    assert closed == ChannelClosed(
        ts_ns=traced.ts_ns,
        channel=1,
        epoch=1,
        by=SERVER,
        code=404,
        text="no queue",
        method="queue.delete",
        cause=QueueDelete(queue="none"),
    )
    assert traced.server(SessionDetach(name_=b"s")) == []
    traced.accept(0)  # it has not read yet that the session is over
    traced.client(SessionDetached(name_=b"s", code=0))
    assert settled(traced) == [("open", 0, 0)]
    assert [each.request.name for each in traced.of(RequestUnanswered)] == ["message.subscribe", "queue.delete"]
    assert 1 not in traced.trace.channels
    assert not traced.trace.memory_used


def test_a_detach_closes_normally() -> None:
    traced = TracedAmqp010(1)
    traced.publish()
    (closed,) = traced.client(SessionDetach(name_=b"s"))
    assert isinstance(closed, ChannelClosed)
    assert (closed.by, closed.code) == (CLIENT, 0)
    traced.complete(0)
    traced.server(SessionDetached(name_=b"s", code=0))
    assert outcomes(traced) == [("confirmed", 1, 1)]


def test_a_refused_attach_closes_with_its_code() -> None:
    traced = TracedAmqp010()
    traced.attach(1, b"s")
    traced.events.clear()
    traced.server(SessionDetached(name_=b"s", code=1))
    (closed,) = traced.of(ChannelClosed)
    assert (closed.by, closed.code, closed.text) == (SERVER, 1, "session-busy")


def test_each_attachment_has_an_epoch_and_a_resumed_session_is_not_known() -> None:
    traced = TracedAmqp010(1)
    traced.publish()
    traced.client(SessionDetach(name_=b"s"))
    traced.server(SessionDetached(name_=b"s", code=0))
    traced.attach(1, point=1)
    assert [each.epoch for each in traced.of(ChannelOpened)] == [2]
    traced.publish()
    (first, second) = traced.of(MessagePublished)
    assert (first.awaits, second.awaits, second.epoch, second.number) == (True, None, 2, 1)
    traced.subscribe()
    traced.deliver()
    assert traced.accept(1)
    assert settled(traced) == [("acked", 1, 1)]
    (event,) = traced.accept(0)  # it may be of a delivery before
    assert isinstance(event, DeliveriesSettled)
    assert event.is_unknown_tag is None


# --- transactions


def test_what_is_published_and_accepted_in_tx_takes_effect_with_the_commit() -> None:
    traced = TracedAmqp010(1)
    traced.client(TxSelect())
    traced.subscribe()
    traced.deliver()
    traced.publish()
    traced.accept(0)
    traced.complete((0, 3))
    assert not outcomes(traced)
    assert not settled(traced)
    traced.client(TxCommit())
    traced.publish()
    traced.complete((0, 4))
    assert outcomes(traced) == [("committed", 1, 1)]
    assert settled(traced) == [("acked", 0, 0)]
    assert traced.of(DeliveriesSettled)[0].ts_ns == traced.ts_ns


def test_a_rollback_opens_what_many_accepts_have_closed() -> None:
    traced = TracedAmqp010(1)
    traced.client(TxSelect())
    traced.subscribe()
    for _ in range(4):
        traced.deliver()
    for number in (3, 1, 0):
        traced.accept(number)
    traced.client(TxRollback())
    traced.complete((0, 5))
    session = traced.trace.channels[1]
    assert [session.is_unacked(number) for number in range(5)] == [True, True, True, True, False]
    assert session.unacked == 4
    (event,) = traced.release((0, 3))
    assert isinstance(event, DeliveriesSettled)
    assert (event.is_unknown_tag, sum(span.count for span in event.spans)) == (False, 4)


def test_after_a_rollback_the_client_holds_what_it_had_accepted() -> None:
    traced = TracedAmqp010(1)
    traced.client(TxSelect())
    traced.subscribe()
    traced.deliver()
    traced.publish()
    traced.accept(0)
    traced.client(TxRollback())
    traced.complete((0, 4))
    assert outcomes(traced) == [("rolled back", 1, 1)]
    assert traced.trace.channels[1].is_unacked(0)
    traced.release(0)
    assert settled(traced) == [("recovered", 0, 0)]


@pytest.mark.parametrize(
    ("status", "outcome", "accepted"),
    [(0, "committed", "acked"), (1, "rolled back", "unknown"), (6, "unknown", "unknown")],
)
def test_what_is_done_in_a_branch_takes_effect_with_its_commit(status: int, outcome: str, accepted: str) -> None:
    traced = TracedAmqp010(1, 2)
    traced.client(DtxSelect())
    traced.subscribe()
    traced.deliver()
    traced.client(DtxStart(xid=XID))
    traced.result(2, XaResult(status=0))
    traced.publish()
    traced.accept(0)
    traced.client(DtxEnd(xid=XID))
    traced.result(5, XaResult(status=0))
    traced.publish()  # outside of the branch
    traced.complete((0, 6))
    assert outcomes(traced) == [("confirmed", 2, 2)]
    traced.client(DtxPrepare(xid=XID))
    traced.result(7, XaResult(status=0))
    traced.client(DtxCommit(xid=XID), channel=2)  # any session may commit it
    traced.feed(SERVER, _result(0, status), channel=2)
    assert outcomes(traced)[1:] == [(outcome, 1, 1)]
    assert settled(traced) == [(accepted, 0, 0)]


def test_a_branch_is_rolled_back() -> None:
    traced = TracedAmqp010(1)
    traced.client(DtxSelect())
    traced.client(DtxStart(xid=XID))
    traced.result(1, XaResult(status=0))
    traced.publish()
    traced.client(DtxEnd(xid=XID))
    traced.result(3, XaResult(status=0))
    traced.client(DtxRollback(xid=XID))
    traced.result(4, XaResult(status=0))
    assert outcomes(traced) == [("rolled back", 1, 1)]


def test_of_a_prepared_branch_nothing_is_known_when_its_session_ends() -> None:
    traced = TracedAmqp010(1)
    traced.client(DtxSelect())
    traced.client(DtxStart(xid=XID))
    traced.publish()
    assert traced.trace.channels[1].unconfirmed == 1
    traced.client(DtxEnd(xid=XID))
    traced.client(DtxPrepare(xid=XID))
    traced.end()
    assert outcomes(traced) == [("unknown", 1, 1)]


def _result(command_id: int, status: int) -> ExecutionResult:
    return ExecutionResult(command_id=command_id, value=XaResult(status=status))


# --- what cannot be known


def test_joined_in_the_middle_nothing_is_linked() -> None:
    traced = TracedAmqp010(joined=True)
    traced.publish()
    traced.deliver()
    traced.client(QueueDeclare(queue="q"))
    traced.complete((0, 100))
    traced.accept((0, 100))
    lost, publish, delivery, request = traced.events
    assert isinstance(lost, HistoryLost)
    assert isinstance(publish, MessagePublished)
    assert (publish.awaits, publish.confirm_tag, publish.epoch) == (None, None, 0)
    assert isinstance(delivery, MessageDelivered)
    assert (delivery.awaits, delivery.method.delivery_tag, delivery.queue) == (None, None, None)
    assert isinstance(request, RequestSent)


def test_after_a_gap_what_was_open_is_unknown() -> None:
    traced = TracedAmqp010(1)
    traced.publish()
    traced.subscribe()
    traced.deliver()
    traced.gap()
    assert outcomes(traced) == [("unknown", 1, 1)]
    assert settled(traced) == [("unknown", 0, 0)]
    traced.publish()
    assert traced.of(MessagePublished)[-1].awaits is None
    traced.client(SessionCommandPoint(command_id=7, command_offset=0))
    traced.publish()  # its number is known again, and not whether it is in a transaction
    assert traced.of(MessagePublished)[-1].awaits is None


def test_commands_in_a_gap_of_the_session_are_unknown() -> None:
    traced = TracedAmqp010(1)
    traced.publish()
    traced.client(SessionGap(commands=ids(0)))
    assert outcomes(traced) == [("unknown", 1, 1)]


def test_what_is_held_is_bounded_and_the_rest_unknown() -> None:
    traced = TracedAmqp010(1, max_spans=4)
    for _ in range(10):
        traced.publish()
    assert {outcome for outcome, _, _ in outcomes(traced)} == {"unknown"}
    traced.complete((0, 9))
    found = {number for outcome, first, last in outcomes(traced) for number in range(first, last + 1)}
    assert found == set(range(1, 11))
    assert outcomes(traced)[-1][0] == "confirmed"


def test_a_transfer_that_goes_no_further_is_ended() -> None:
    traced = TracedAmqp010(1)
    transfer, header = published()
    frames = frames_of(1, transfer, header=header, body=b"x" * 3000)
    traced.trace.feed(CLIENT, frames[:3], 1)
    events = traced.trace.end_content(CLIENT, 1, 2)
    assert [type(each) for each in events] == [MessagePublished]


# --- snapshots


def joined(whole: TracedAmqp010) -> TracedAmqp010:
    """A trace that goes on from the state of another."""
    found = TracedAmqp010(joined=True)
    found.ts_ns = whole.ts_ns
    snapshot = ConnectionSnapshot.from_bytes(whole.trace.snapshot(whole.ts_ns).to_bytes())
    assert [type(each) for each in found.trace.restore(snapshot)] == [StateRestored]
    return found


def test_a_restored_session_goes_on_as_the_whole_one() -> None:
    whole = TracedAmqp010(1)
    whole.subscribe("orders")
    whole.complete(0)
    whole.deliver()
    whole.deliver()
    whole.publish()
    whole.client(QueueQuery(queue="orders"))
    found = joined(whole)
    for each in (whole, found):
        each.events.clear()
        each.publish()
        each.complete((1, 3))
        each.result(2)
        each.deliver()
        each.accept((0, 1), 2, 7)
        each.end()
    numbers = {PublishesSettled: 1, MessagePublished: 1}  # publishes are numbered by their positions
    for one, other in zip(found.events, whole.events, strict=True):
        assert type(one) is type(other)
        if type(one) not in numbers:
            assert one == other
    (published,) = found.of(MessagePublished)
    assert (published.confirm_tag, published.awaits, published.number) == (3, True, 4)
    (settled,) = found.of(PublishesSettled)
    assert [(each.first, each.last) for each in settled.spans] == [(2, 2), (4, 4)]
    assert [each.queue for each in found.of(MessageDelivered)] == ["orders"]
    assert [each.is_unknown_tag for each in found.of(DeliveriesSettled) if each.command] == [True]


def test_a_transaction_goes_on_after_a_snapshot() -> None:
    whole = TracedAmqp010(1)
    whole.client(TxSelect())
    whole.publish()
    whole.client(TxCommit())
    whole.publish()
    found = joined(whole)
    found.publish()
    found.complete((0, 4))
    assert [each.outcome for each in found.of(PublishesSettled)] == [Settlement.COMMITTED]
    found.client(TxRollback())
    found.complete(5)
    assert [each.outcome for each in found.of(PublishesSettled)] == [Settlement.COMMITTED, Settlement.ROLLED_BACK]
    assert [each.awaits for each in found.of(MessagePublished)] == [True]


def test_deliveries_accepted_in_a_transaction_before_a_snapshot_may_be_held_again() -> None:
    whole = TracedAmqp010(1)
    whole.client(TxSelect())
    whole.deliver()
    whole.accept(0)
    found = joined(whole)
    found.client(TxRollback())
    found.complete((0, 2))
    found.release(0)
    assert [each.is_unknown_tag for each in found.of(DeliveriesSettled)] == [None]


def test_the_rest_of_a_transfer_is_not_reported_but_settled() -> None:
    whole = TracedAmqp010(1)
    transfer, header = published()
    *_, last = frames_of(1, transfer, header, b"x" * 3000)
    for frame in frames_of(1, transfer, header, b"x" * 3000)[:-1]:
        whole.trace.feed(CLIENT, [frame], whole.ts_ns)
    found = joined(whole)
    assert found.trace.feed(CLIENT, [last], found.ts_ns) == []
    assert found.trace.channels[1].unconfirmed == 1
    (settled,) = found.complete(0)
    assert isinstance(settled, PublishesSettled)
    assert settled.outcome is Settlement.CONFIRMED


def test_a_session_in_a_branch_is_known_again_after_it() -> None:
    whole = TracedAmqp010(1)
    whole.client(DtxSelect())
    whole.client(DtxStart(xid=XID))
    found = joined(whole)
    found.publish()
    found.complete((0, 2))
    assert [each.awaits for each in found.of(MessagePublished)] == [None]
    assert found.of(PublishesSettled) == []
    found.client(DtxEnd(xid=XID))
    found.publish()
    found.complete((0, 4))
    assert [each.outcome for each in found.of(PublishesSettled)] == [Settlement.CONFIRMED]


def test_a_session_that_is_closing_or_attaching_goes_on() -> None:
    whole = TracedAmqp010(1)
    whole.client(SessionDetach(name_=b"s"))
    whole.client(SessionAttach(name_=b"new"))
    found = joined(whole)
    for each in (whole, found):
        each.events.clear()
        each.server(SessionDetached(name_=b"s"))
        each.server(SessionAttached(name_=b"new"))
        for sender in Peer:
            each.feed(sender, SessionCommandPoint(command_id=0, command_offset=0), channel=1)
        each.publish()
        each.complete(0)
        each.end()
    assert found.events == whole.events


@pytest.mark.parametrize(
    "session",
    [
        ChannelSnapshot(number=1, mode="confirm"),
        ChannelSnapshot(number=1, mode="normal", contents=(ContentSnapshot(sender="client", method=b"\x01"),)),
        ChannelSnapshot(
            number=1,
            mode="normal",
            contents=(ContentSnapshot(sender="client", method=TxSelect().encode()),),
        ),
        ChannelSnapshot(number=1, mode="tx", requests=(RequestSnapshot(ts_ns=1, sender="client", method=b""),)),
    ],
)
def test_impossible_states_of_sessions(session: ChannelSnapshot) -> None:
    with pytest.raises(ValueError, match=r"in a snapshot|which no session has"):
        TracedAmqp010(joined=True).trace.restore(ConnectionSnapshot(ts_ns=1, protocol="0-10", channels=(session,)))
