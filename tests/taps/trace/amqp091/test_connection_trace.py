"""What happens on a connection, as the trace reports it."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp091.frame import Frame, encode_frame
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
)
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.taps.trace.events import (
    BlockingEnded,
    ChannelOpened,
    ConnectionClosed,
    ConnectionOpened,
    DeliveriesSettled,
    HistoryLost,
    MessagePublished,
    PublishesSettled,
    RequestAnswered,
    RequestUnanswered,
    Settlement,
)
from tests.taps.trace.traced import Traced

MS = 1_000_000
PUBLISH_REFUSED = ConnectionClose(540, "NOT_IMPLEMENTED", 60, 40)


def test_a_handshake_of_a_client_that_waits_for_nothing() -> None:
    traced = Traced(joined=True)
    traced.trace.feed_protocol_header(0)
    traced.server(ConnectionStart(), channel=0)
    traced.client(ConnectionStartOk(response=b"\0me\0secret"), ConnectionTuneOk(10, 4096, 5), channel=0)
    traced.client(ConnectionOpen("v"), channel=0)
    traced.client(ChannelOpen(), BasicPublish())
    traced.server(ConnectionTune(), ConnectionOpenOk(), channel=0)
    traced.server(ChannelOpenOk())
    (opened,) = traced.of(ConnectionOpened)
    assert (opened.virtual_host, opened.user, opened.mechanism) == ("v", "me", "PLAIN")
    assert (opened.channel_max, opened.frame_max, opened.heartbeat, opened.latency_ns) == (10, 4096, 5, 5 * MS)
    assert len(traced.of(MessagePublished)) == len(traced.of(ChannelOpened)) == 1
    assert "secret" not in repr(traced.events)


def test_secrets_are_masked() -> None:
    traced = Traced()
    traced.client(ConnectionUpdateSecret(b"secret", "expired"), channel=0)
    traced.client(ConnectionUpdateSecret(b"secret", "again"), channel=0)
    traced.server(ConnectionUpdateSecretOk(), channel=0)
    traced.end()
    (answered,) = traced.of(RequestAnswered)
    assert answered.latency_ns == 2 * MS
    assert len(traced.of(RequestUnanswered)) == 1
    assert "secret'" not in repr(traced.events)


def test_for_how_long_a_connection_was_blocked() -> None:
    traced = Traced()
    traced.server(ConnectionBlocked("memory"), channel=0)
    traced.server(ConnectionBlocked("disk"), channel=0)
    traced.server(ConnectionUnblocked(), channel=0)
    traced.server(ConnectionBlocked("memory"), channel=0)
    traced.gap(SERVER)
    traced.server(ConnectionUnblocked(), channel=0)
    assert [each.latency_ns for each in traced.of(BlockingEnded)] == [2 * MS, None]


@pytest.mark.parametrize("closer", [CLIENT, SERVER])
def test_after_a_close_the_broker_reads_nothing_else(closer: Any) -> None:
    traced = Traced(1)
    traced.client(BasicConsume(queue="q", consumer_tag="c", no_wait=True), ConfirmSelect(no_wait=True), BasicPublish())
    traced.server(BasicDeliver("c", 1))
    (traced.client if closer is CLIENT else traced.server)(ConnectionClose(320, "bye"), channel=0)
    traced.client(BasicAck(1), BasicPublish())
    traced.client(ChannelOpen(), channel=2)
    (traced.client if closer is SERVER else traced.server)(ConnectionCloseOk(), channel=0)
    assert [(each.outcome, each.spans[0].last) for each in traced.of(PublishesSettled)] == [(Settlement.OPEN, 1)]
    assert [each.outcome for each in traced.of(DeliveriesSettled)] == [Settlement.OPEN]
    traced.end()
    (closed,) = traced.of(ConnectionClosed)
    assert (closed.by, closed.code, closed.is_open) == (closer, 320, True)


def test_the_cause_of_a_close_may_be_on_any_channel() -> None:
    traced = Traced(1, 2)
    traced.client(BasicPublish(exchange="a"))
    traced.client(BasicPublish(exchange="b"), BasicPublish(exchange="c"), channel=2)
    traced.server(PUBLISH_REFUSED, channel=0)
    assert traced.of(ConnectionClosed)[0].cause is None
    traced = Traced(1, 2)
    traced.client(BasicPublish(exchange="a"))
    traced.server(PUBLISH_REFUSED, channel=0)
    assert traced.of(ConnectionClosed)[0].cause == BasicPublish(exchange="a")


def test_the_cause_of_a_close_may_be_on_a_channel_that_is_not_open() -> None:
    traced = Traced(1)
    traced.client(BasicPublish(exchange="b"), channel=7)
    traced.server(ConnectionClose(504, "CHANNEL_ERROR - expected 'channel.open'", 60, 40), channel=0)
    assert traced.of(ConnectionClosed)[0].cause == BasicPublish(exchange="b")
    assert traced.of(MessagePublished) == []


def test_a_channel_that_is_opened_again_before_close_ok() -> None:
    traced = Traced(1)
    traced.client(ConfirmSelect(no_wait=True), BasicPublish(), ChannelClose(), ChannelOpen(), BasicQos())
    traced.server(BasicAck(1))
    assert [each.outcome for each in traced.of(PublishesSettled)] == [Settlement.CONFIRMED]
    traced.server(ChannelCloseOk(), ChannelOpenOk(), BasicQosOk())
    assert traced.of(RequestAnswered)[-1].request == BasicQos()
    assert traced.of(HistoryLost) == []


def test_events_say_which_opening_of_a_channel_they_are_of() -> None:
    traced = Traced(1)
    traced.client(ConfirmSelect(no_wait=True), BasicPublish(), ChannelClose(), ChannelOpen(), BasicPublish())
    traced.server(BasicAck(1), ChannelCloseOk(), ChannelOpenOk())
    traced.client(ChannelClose())
    traced.server(ChannelCloseOk())
    traced.client(ChannelOpen(), BasicPublish())
    assert [(each.epoch, each.number) for each in traced.of(MessagePublished)] == [(1, 1), (2, 1), (3, 1)]
    assert [each.epoch for each in traced.of(PublishesSettled)] == [1]
    assert [each.epoch for each in traced.of(ChannelOpened)] == [2]


def test_a_channel_that_was_open_before_is_of_no_opening() -> None:
    traced = Traced(joined=True)
    traced.client(BasicPublish(), ChannelClose())
    traced.server(ChannelCloseOk())
    traced.client(BasicPublish(), ChannelOpen(), BasicPublish())
    assert [each.epoch for each in traced.of(MessagePublished)] == [0, 1, 2]


def test_a_channel_whose_open_ok_was_missed_and_that_is_opened_again() -> None:
    traced = Traced()
    traced.client(ChannelOpen(), ChannelClose())
    traced.gap(SERVER)
    traced.client(ChannelOpen(), BasicQos())
    traced.server(ChannelOpenOk(), BasicQosOk())
    assert traced.of(RequestAnswered)[-1].request == BasicQos()


def test_an_opening_after_missed_frames_may_answer_an_earlier_or_later_request() -> None:
    traced = Traced()
    traced.client(ChannelOpen(), ChannelClose(), ChannelOpen())
    traced.gap()
    traced.server(ChannelOpenOk(), ChannelCloseOk(), ChannelOpenOk())
    traced.client(ChannelOpen(), channel=2)
    traced.gap()
    traced.server(ChannelOpenOk(), channel=2)
    assert [each.latency_ns for each in traced.of(ChannelOpened)] == [None, None, None]


def test_missed_frames_of_the_client_do_not_hide_what_its_opening_is_answered_with() -> None:
    traced = Traced()
    traced.client(ChannelOpen())
    traced.gap(CLIENT, is_other_whole=True)
    traced.server(ChannelOpenOk())
    assert [each.latency_ns for each in traced.of(ChannelOpened)] == [2_000_000]


def test_a_second_open_of_an_open_channel_changes_nothing() -> None:
    traced = Traced(1)
    traced.client(ConfirmSelect(no_wait=True), BasicPublish(), ChannelOpen())
    (event,) = traced.server(BasicAck(1))
    assert isinstance(event, PublishesSettled)
    assert event.spans[0].first == 1


def test_a_frame_that_is_malformed_is_a_loss() -> None:
    traced = Traced(1)
    malformed = Frame(encode_frame(1, 1, bytes([0, 60, 0, 80, 1])))
    (lost,) = traced.trace.feed(CLIENT, [malformed], 0)
    assert isinstance(lost, HistoryLost)
    assert lost.sender is CLIENT


def test_what_ends_without_a_close() -> None:
    traced = Traced(1)
    (closed,) = traced.end()
    assert closed == ConnectionClosed(ts_ns=traced.ts_ns, by=None, code=0, text="over", is_open=True)
    assert traced.end() == []
