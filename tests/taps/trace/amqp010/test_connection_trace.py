"""What happens on one connection of 0-10."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.commands import ExecutionSync, QueueDeclare
from amqproxy.amqp010.controls import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionHeartbeat,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    SessionAttach,
    SessionAttached,
    SessionCommandPoint,
    SessionCompleted,
    SessionDetach,
    SessionDetached,
)
from amqproxy.amqp010.frame import COMMAND, FIRST_SEGMENT, LAST_SEGMENT, WHOLE_SEGMENT, Frame, encode_frame
from amqproxy.amqp010.wire import Map
from amqproxy.peer import CLIENT, SERVER
from amqproxy.taps.trace.amqp010.connection_trace import Amqp010Trace
from amqproxy.taps.trace.events import (
    ChannelClosed,
    ChannelOpened,
    ConnectionClosed,
    ConnectionOpened,
    DeliveriesSettled,
    HistoryLost,
    MessagePublished,
    PublishesSettled,
    RequestAnswered,
    Settlement,
)
from tests.taps.trace.amqp010.traced import START, TracedAmqp010, frames_of, ids, published


def test_a_connection_is_opened_with_what_was_agreed() -> None:
    traced = TracedAmqp010(joined=True)
    traced.trace.feed_protocol_header(0)
    for sender, control in START:
        traced.feed(sender, control, channel=0)
    (opened,) = traced.events
    assert isinstance(opened, ConnectionOpened)
    assert (opened.virtual_host, opened.mechanism, opened.user) == ("test", "PLAIN", "guest")
    assert (opened.channel_max, opened.frame_max, opened.heartbeat) == (10, 65535, 30)
    assert opened.latency_ns == traced.ts_ns


def test_start_is_a_beginning_too() -> None:
    traced = TracedAmqp010(joined=True)
    assert traced.feed(SERVER, ConnectionStart(server_properties=Map({"product": "p"})), channel=0) == []
    (opened,) = traced.feed(SERVER, ConnectionOpenOk(), channel=0)
    assert isinstance(opened, ConnectionOpened)
    assert opened.server_properties == {"product": "p"}
    assert (opened.user, opened.heartbeat, opened.latency_ns) == (None, None, None)


def test_a_refused_login_names_what_was_refused() -> None:
    traced = TracedAmqp010(joined=True)
    traced.trace.feed_protocol_header(0)
    traced.feed(SERVER, ConnectionStart(), channel=0)
    traced.feed(CLIENT, ConnectionStartOk(mechanism="PLAIN", response=b"\0a\0b", locale="en_US"), channel=0)
    (closed,) = traced.feed(SERVER, ConnectionClose(reply_code=320, reply_text="no"), channel=0)
    assert isinstance(closed, ConnectionClosed)
    assert (closed.by, closed.code, closed.method, closed.is_open) == (SERVER, 320, "connection.start-ok", False)


def test_a_close_ends_its_sessions_once_it_is_answered() -> None:
    traced = TracedAmqp010(1)
    traced.publish()
    (closed,) = traced.feed(SERVER, ConnectionClose(reply_code=320, reply_text="over"), channel=0)
    assert isinstance(closed, ConnectionClosed)
    assert (closed.code, closed.is_open, closed.method) == (320, True, None)
    (settled,) = traced.feed(CLIENT, ConnectionCloseOk(), channel=0)
    assert isinstance(settled, PublishesSettled)
    assert settled.outcome is Settlement.OPEN
    assert traced.end() == []
    assert traced.trace.memory_used == 0


def test_a_connection_that_is_cut_is_closed_by_none() -> None:
    traced = TracedAmqp010(1)
    (closed,) = traced.end()
    assert closed == ConnectionClosed(ts_ns=traced.ts_ns, by=None, code=0, text="over", is_open=True)


def test_a_session_on_channel_0_is_on_a_channel() -> None:
    traced = TracedAmqp010(0)
    traced.publish(channel=0)
    (request,) = traced.client(ExecutionSync(), channel=0) or traced.complete(1, channel=0)
    assert isinstance(request, RequestAnswered)
    assert (request.on_channel, traced.of(MessagePublished)[0].on_channel) == (0, 0)
    assert traced.end()[-1].on_channel is None


def test_a_session_may_be_attached_before_the_last_is_gone() -> None:
    traced = TracedAmqp010(1)
    traced.publish()
    traced.client(SessionDetach(name_=b"s"))
    traced.client(SessionAttach(name_=b"t"))
    traced.client(SessionCommandPoint(command_id=0, command_offset=0))
    traced.publish()
    traced.complete(0)  # still of the first one
    traced.server(SessionDetached(name_=b"s", code=0))
    traced.server(SessionAttached(name_=b"t"))
    traced.complete(0)
    assert [(each.epoch, each.outcome) for each in traced.of(PublishesSettled)] == [
        (1, Settlement.CONFIRMED),
        (2, Settlement.CONFIRMED),
    ]
    assert [each.epoch for each in traced.of(ChannelOpened)] == [2]
    assert [each.epoch for each in traced.of(ChannelClosed)] == [1]


def test_what_is_malformed_loses_what_was_open() -> None:
    traced = TracedAmqp010(1)
    traced.publish()
    raw = encode_frame(FIRST_SEGMENT | LAST_SEGMENT | WHOLE_SEGMENT, COMMAND, 1, b"\xee\xee\x01\x00")
    events = traced.trace.feed(CLIENT, [Frame(raw)], traced.ts_ns)
    assert [type(each) for each in events] == [HistoryLost, PublishesSettled]


def test_frames_are_shown_to_the_listener_without_heartbeats() -> None:
    traced = TracedAmqp010(1)
    shown: list[tuple[str, int]] = []
    traced.trace.listen(lambda events, sender, number: shown.append((str(sender), number)))
    traced.feed(CLIENT, ConnectionHeartbeat(), channel=0)
    traced.publish()  # three frames
    traced.gap()
    assert shown == [("client", 3), ("None", 0)]


def test_a_control_may_come_in_several_frames() -> None:
    traced = TracedAmqp010(1)
    traced.publish()
    control = SessionCompleted(commands=ids(*[(2 * number, 2 * number) for number in range(200)]))
    frames = frames_of(1, control)
    assert len(frames) > 1
    assert [type(each) for each in traced.trace.feed(SERVER, frames, 9)] == [PublishesSettled]


def test_sessions_are_bounded_by_memory() -> None:
    traced = TracedAmqp010(1, 2, max_memory=5000)
    traced.publish(channel=2)
    assert list(traced.trace.channels) == [1]
    assert not traced.of(MessagePublished)


# --- captures, whose directions have no common order


@pytest.mark.parametrize("is_late", [False, True])
def test_an_answer_that_comes_early_is_held(is_late: bool) -> None:
    trace = Amqp010Trace(is_ordered=False)
    trace.feed_protocol_header(0)
    transfer, header = published()
    client = [SessionAttach(name_=b"s"), SessionCommandPoint(command_id=0, command_offset=0), QueueDeclare(queue="q")]
    server = [SessionAttached(name_=b"s"), SessionCompleted(commands=ids((0, 1)))]
    events = [each for sender, control in START for each in trace.feed(sender, frames_of(0, control), 1)]
    answers = [frame for method in server for frame in frames_of(1, method)]
    asked = [frame for method in client for frame in frames_of(1, method)]
    asked += frames_of(1, transfer, header=header, body=b"hello")
    for sender, frames in ((SERVER, answers), (CLIENT, asked)) if is_late else ((CLIENT, asked), (SERVER, answers)):
        events += trace.feed(sender, frames, 5)
    assert [type(each) for each in events[1:]] == (
        [ChannelOpened, MessagePublished, PublishesSettled, RequestAnswered]
        if is_late
        else [MessagePublished, ChannelOpened, PublishesSettled, RequestAnswered]
    )


def test_what_comes_early_is_held_in_a_new_session_of_a_joined_connection() -> None:
    traced = TracedAmqp010(joined=True, is_ordered=False)
    traced.attach(1)
    traced.subscribe("q", "d")
    assert traced.accept(0) == []
    traced.deliver("d")
    settled = traced.of(DeliveriesSettled)
    assert [(each.is_unknown_tag, len(each.spans)) for each in settled] == [(False, 1)]


def test_what_is_held_is_taken_at_the_end() -> None:
    trace = Amqp010Trace(is_ordered=False)
    trace.feed_protocol_header(0)
    assert trace.feed(SERVER, frames_of(1, SessionAttached(name_=b"s")), 1) == []
    assert [type(each) for each in trace.end(2, "over")] == [ConnectionClosed]
    assert trace.memory_used == 0


def test_what_is_held_is_bounded() -> None:
    trace = Amqp010Trace(is_ordered=False, max_memory=1000)
    trace.feed_protocol_header(0)
    events = [
        event for number in range(10) for event in trace.feed(SERVER, frames_of(1, SessionAttached(name_=b"s")), number)
    ]
    assert any(isinstance(each, HistoryLost) for each in events)
    trace.end(20, "over")
    assert trace.memory_used == 0
