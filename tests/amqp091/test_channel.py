"""One channel: content, requests and replies, consumers, deliveries, confirms, transactions, and its end."""

import pytest

from amqproxy.amqp091 import channel as module
from amqproxy.amqp091.channel import Channel, ChannelMode
from amqproxy.amqp091.connection import CLIENT, SERVER, Connection
from amqproxy.amqp091.errors import ProtocolError, ResourceError
from amqproxy.amqp091.methods import BasicConsume, BasicPublish, BasicQos
from amqproxy.amqp091.transitions import ChannelState
from tests.amqp091.transcript import by_byte, play, play_in_bursts, whole

OPEN = """
>> protocol-header
<< connection.start
>> connection.start-ok
<< connection.tune
>> connection.tune-ok
>> connection.open
<< connection.open-ok
>> 1 channel.open
<< 1 channel.open-ok
"""

TRANSCRIPTS = {
    "a publish": """
        >> 1 basic.publish routing_key=q
        >> 1 header 5
        >> 1 body hel
        >> 1 body lo
        >> 1 basic.publish routing_key=q
        >> 1 header 0
        >> 1 basic.publish routing_key=q
        """,
    "contents of both sides and of two channels, interleaved": """
        >> 2 channel.open
        >> 1 basic.publish routing_key=q
        >> 2 basic.publish routing_key=q
        << 1 basic.deliver consumer_tag=c delivery_tag=1
        >> 2 header 1
        << 1 header 2
        >> 1 header 1
        >> heartbeat
        >> 2 body y
        << heartbeat
        << 1 body zz
        >> 1 body x
        >> 2 basic.qos
        """,
    "a header without a method": """
        >> 1 header 5
        !! 505 connection 0.0 +0
        """,
    "a body without a header": """
        >> 1 basic.publish
        >> 1 body x
        !! 505 connection 60.40 +0
        """,
    "a method in the middle of a content": """
        << 1 basic.deliver consumer_tag=c delivery_tag=1
        << 1 header 5
        << 1 basic.cancel-ok
        !! 505 connection 60.60 +0
        """,
    "a close in the middle of a content of the same peer": """
        >> 1 basic.publish
        >> 1 header 5
        >> 1 channel.close
        !! 505 connection 60.40 +0
        """,
    "more body than announced": """
        >> 1 basic.publish
        >> 1 header 5
        >> 1 body hello!
        !! 501 connection 60.40 +7
        """,
    "requests and their replies": """
        >> 1 exchange.declare exchange=e
        << 1 exchange.declare-ok
        >> 1 exchange.bind destination=e source=f
        << 1 exchange.bind-ok
        >> 1 exchange.unbind destination=e source=f
        << 1 exchange.unbind-ok
        >> 1 queue.declare queue=q
        << 1 queue.declare-ok queue=q
        >> 1 queue.bind queue=q exchange=e
        << 1 queue.bind-ok
        >> 1 queue.unbind queue=q exchange=e
        << 1 queue.unbind-ok
        >> 1 queue.purge queue=q
        << 1 queue.purge-ok
        >> 1 queue.delete queue=q
        << 1 queue.delete-ok
        >> 1 exchange.delete exchange=e
        << 1 exchange.delete-ok
        >> 1 basic.qos prefetch_count=5
        << 1 basic.qos-ok
        >> 1 access.request realm=/data
        << 1 access.request-ok
        """,
    "a reply without a request": """
        << 1 queue.declare-ok queue=q
        !! 503 connection 50.11 +0
        """,
    "a reply to what was not to be answered": """
        >> 1 queue.declare queue=q no_wait=True
        << 1 queue.declare-ok queue=q
        !! 503 connection 50.11 +0
        """,
    "a second reply": """
        >> 1 basic.qos
        << 1 basic.qos-ok
        << 1 basic.qos-ok
        !! 503 connection 60.11 +0
        """,
    "consume-ok after the replies to what came behind it, as RabbitMQ answers": """
        >> 1 basic.consume queue=q consumer_tag=a
        >> 1 basic.qos
        >> 1 queue.declare queue=q passive=True
        << 1 basic.qos-ok
        << 1 queue.declare-ok queue=q
        << 1 basic.consume-ok consumer_tag=a
        """,
    "a method that only a server may send": """
        >> 1 basic.deliver consumer_tag=c delivery_tag=1
        !! 503 connection 60.60 +0
        """,
    "a server's reply from the client": """
        >> 1 basic.qos-ok
        !! 503 connection 60.11 +0
        """,
    "a method that only a client may send": """
        << 1 basic.publish
        !! 503 connection 60.40 +0
        """,
    "a method of the connection": """
        >> 1 connection.close
        !! 503 connection 10.50 +0
        """,
    "opened twice": """
        >> 1 channel.open
        !! 504 connection 20.10 +0
        """,
    "open-ok twice": """
        << 1 channel.open-ok
        !! 503 connection 20.11 +0
        """,
    "close-ok to no close": """
        >> 1 channel.close-ok
        !! 503 connection 20.41 +0
        """,
    "flow of both sides": """
        << 1 channel.flow active=False
        >> 1 channel.flow-ok active=False
        >> 1 channel.flow active=True
        << 1 channel.flow-ok active=True
        """,
    "flow-ok to no flow": """
        >> 1 channel.flow-ok active=True
        !! 503 connection 20.21 +0
        """,
    "get": """
        >> 1 basic.get queue=q
        << 1 basic.get-empty
        >> 1 basic.get queue=q
        << 1 basic.get-ok delivery_tag=1
        << 1 header 2
        << 1 body xy
        >> 1 basic.ack delivery_tag=1
        """,
    "get-ok to no get": """
        << 1 basic.get-ok delivery_tag=1
        !! 503 connection 60.71 +0
        """,
    "a consumer that the server cancels": """
        >> 1 basic.consume queue=q consumer_tag=a
        << 1 basic.consume-ok consumer_tag=a
        << 1 basic.cancel consumer_tag=a no_wait=True
        """,
    "a consumer that the server cancels, and asks for an answer": """
        << 1 basic.cancel consumer_tag=a
        >> 1 basic.cancel-ok consumer_tag=a
        """,
    "cancel-ok to no cancel": """
        >> 1 basic.cancel-ok consumer_tag=a
        !! 503 connection 60.31 +0
        """,
    "recover": """
        >> 1 basic.recover requeue=True
        << 1 basic.recover-ok
        >> 1 basic.recover-async requeue=True
        """,
    "confirms where none were asked for": """
        << 1 basic.ack delivery_tag=1
        !! 503 connection 60.80 +0
        """,
    "a transaction, and confirms in it": """
        >> 1 tx.select
        << 1 tx.select-ok
        >> 1 basic.publish
        >> 1 header 0
        >> 1 tx.commit
        << 1 tx.commit-ok
        >> 1 tx.rollback
        << 1 tx.rollback-ok
        >> 1 confirm.select
        !! 406 channel 85.10 +0
        """,
    "a commit of no transaction": """
        >> 1 tx.commit
        !! 406 channel 90.20 +0
        << 1 channel.close reply_code=406
        >> (1 basic.qos)
        >> 1 channel.close-ok
        """,
    "a rollback of no transaction": """
        >> 1 confirm.select
        << 1 confirm.select-ok
        >> 1 tx.rollback
        !! 406 channel 90.30 +0
        """,
    "the client closes": """
        >> 1 channel.close
        << (1 basic.deliver consumer_tag=c delivery_tag=1)
        << (1 header 5)
        >> (1 basic.ack delivery_tag=1)
        << 1 channel.close-ok
        """,
    "the server closes, in the middle of what the client sends": """
        >> 1 basic.publish
        >> 1 header 5
        << 1 channel.close
        >> (1 body hello)
        >> (1 basic.publish)
        >> 1 channel.close-ok
        >> 1 channel.open
        >> 1 basic.publish
        << 1 channel.open-ok
        >> 1 header 0
        """,
    "the server closes, and what is under way is dropped": """
        >> 1 basic.publish
        << 1 channel.close
        >> 1 channel.close-ok
        >> 1 channel.open
        >> 1 basic.publish
        >> 1 header 1
        >> 1 body x
        """,
    "both close at once": """
        >> 1 channel.close
        << 1 channel.close
        << (1 basic.qos-ok)
        >> 1 channel.close-ok
        << 1 channel.close-ok
        >> 1 channel.open
        """,
    "both close at once, and the server answers first": """
        >> 1 channel.close
        << 1 channel.close
        << 1 channel.close-ok
        >> 1 channel.close-ok
        >> 1 channel.open
        """,
    "a number is not free before close-ok": """
        >> 1 channel.close
        >> 1 channel.open
        !! 504 connection 20.10 +0
        """,
    "nor for who has answered a close that crossed its own": """
        >> 1 channel.close
        << 1 channel.close
        >> 1 channel.close-ok
        >> 1 channel.open
        !! 504 connection 20.10 +0
        """,
    "a channel that failed to open": """
        >> 2 channel.open
        << 2 channel.close reply_code=504
        >> 2 channel.close-ok
        >> 2 channel.open
        << 2 channel.open-ok
        """,
    "closed before it was open": """
        >> 2 channel.open
        >> 2 channel.close
        << (2 channel.open-ok)
        << 2 channel.close-ok
        """,
    "used before open-ok": """
        >> 2 channel.open
        >> 2 queue.declare queue=q
        >> 2 basic.publish
        >> 2 header 1
        >> 2 body x
        << 2 channel.open-ok
        << 2 queue.declare-ok queue=q
        """,
}


@pytest.mark.parametrize("transcript", TRANSCRIPTS.values(), ids=TRANSCRIPTS)
class TestTranscripts:
    def test_line_by_line(self, transcript: str) -> None:
        play(OPEN + transcript)

    def test_in_bursts(self, transcript: str) -> None:
        play_in_bursts(OPEN + transcript)

    def test_byte_by_byte(self, transcript: str) -> None:
        play_in_bursts(OPEN + transcript, by_byte)

    def test_without_deliveries_being_tracked(self, transcript: str) -> None:
        play_in_bursts(OPEN + transcript, whole, Connection())


def on_open_channel(transcript: str) -> Channel:
    return play(OPEN + transcript).channels[1]


# --- what it knows afterwards

CONFIRMS = """
>> 1 confirm.select
<< 1 confirm.select-ok
>> 1 basic.publish
>> 1 header 0
>> 1 basic.publish
>> 1 header 0
>> 1 basic.publish
>> 1 header 0
>> 1 basic.publish
>> 1 header 0
"""


@pytest.mark.parametrize(
    ("confirm", "open_tags"),
    [
        ("<< 1 basic.ack delivery_tag=2", [1, 3, 4]),
        ("<< 1 basic.ack delivery_tag=3 multiple=True", [4]),
        ("<< 1 basic.nack delivery_tag=4 multiple=True", []),
        ("<< 1 basic.nack delivery_tag=4", [1, 2, 3]),
    ],
)
def test_confirms(confirm: str, open_tags: list[int]) -> None:
    channel = on_open_channel(CONFIRMS + confirm)
    assert channel.mode is ChannelMode.CONFIRM
    assert [tag for tag in range(1, 5) if tag in channel.unconfirmed] == open_tags
    assert channel.unconfirmed.last == 4


def test_a_confirm_of_what_was_not_published() -> None:
    on_open_channel(CONFIRMS + "<< 1 basic.ack delivery_tag=5\n!! 406 channel 60.80 +0")


def test_a_publish_before_confirm_mode_is_not_counted() -> None:
    channel = on_open_channel(">> 1 basic.publish\n>> 1 header 0" + CONFIRMS)
    assert channel.unconfirmed.last == 4


DELIVERIES = """
>> 1 basic.consume queue=q consumer_tag=c
<< 1 basic.consume-ok consumer_tag=c
<< 1 basic.deliver consumer_tag=c delivery_tag=1
<< 1 header 0
<< 1 basic.deliver consumer_tag=c delivery_tag=2
<< 1 header 0
>> 1 basic.get queue=q
<< 1 basic.get-ok delivery_tag=3
<< 1 header 0
"""


@pytest.mark.parametrize(
    ("settling", "open_tags"),
    [
        ("", [1, 2, 3]),
        (">> 1 basic.ack delivery_tag=2", [1, 3]),
        (">> 1 basic.ack delivery_tag=2 multiple=True", [3]),
        (">> 1 basic.ack delivery_tag=0 multiple=True", []),
        (">> 1 basic.nack delivery_tag=3 multiple=True", []),
        (">> 1 basic.reject delivery_tag=3", [1, 2]),
        (">> 1 basic.recover\n<< 1 basic.recover-ok", []),
        (">> 1 basic.recover-async", []),
    ],
)
def test_deliveries(settling: str, open_tags: list[int]) -> None:
    channel = on_open_channel(DELIVERIES + settling)
    assert [tag for tag in range(1, 5) if tag in channel.unacked] == open_tags


@pytest.mark.parametrize("tag", ["0", "4"])
def test_an_ack_of_what_was_not_delivered(tag: str) -> None:
    on_open_channel(DELIVERIES + f">> 1 basic.ack delivery_tag={tag}\n!! 406 channel 60.80 +0")


def test_a_second_ack() -> None:
    on_open_channel(
        DELIVERIES + ">> 1 basic.ack delivery_tag=1\n>> 1 basic.ack delivery_tag=1\n!! 406 channel 60.80 +0"
    )


def test_a_delivery_tag_that_goes_back() -> None:
    play_in_bursts(OPEN + DELIVERIES + "<< 1 basic.deliver consumer_tag=c delivery_tag=3\n!! 503 connection 60.60 +0")


def test_what_needs_no_ack_is_not_open() -> None:
    channel = on_open_channel("""
        >> 1 basic.consume queue=q consumer_tag=c no_ack=True
        << 1 basic.consume-ok consumer_tag=c
        << 1 basic.deliver consumer_tag=c delivery_tag=1
        << 1 header 0
        >> 1 basic.get queue=q no_ack=True
        << 1 basic.get-ok delivery_tag=2
        << 1 header 0
        """)
    assert channel.consumers == {"c": True}
    assert len(channel.unacked) == 0


def test_direct_replies_repeat_the_next_tag_as_rabbitmq_sends_them() -> None:
    channel = on_open_channel("""
        >> 1 basic.consume queue=amq.rabbitmq.reply-to consumer_tag=r no_ack=True
        << 1 basic.consume-ok consumer_tag=r
        >> 1 basic.consume queue=q consumer_tag=c
        << 1 basic.consume-ok consumer_tag=c
        << 1 basic.deliver consumer_tag=r delivery_tag=1
        << 1 header 0
        << 1 basic.deliver consumer_tag=r delivery_tag=1
        << 1 header 0
        << 1 basic.deliver consumer_tag=c delivery_tag=1
        << 1 header 0
        >> 1 basic.ack delivery_tag=1
        """)
    assert len(channel.unacked) == 0


def test_a_server_may_name_a_consumer_without_consume_ok() -> None:
    channel = on_open_channel("""
        >> 1 basic.consume queue=q no_ack=True no_wait=True
        << 1 basic.deliver consumer_tag=amq.ctag-x delivery_tag=1
        << 1 header 0
        """)
    assert len(channel.unacked) == 0


def test_consume_ok_belongs_to_the_request_of_its_tag() -> None:
    channel = on_open_channel("""
        >> 1 basic.consume queue=a consumer_tag=a no_ack=True
        >> 1 basic.consume queue=b consumer_tag=b
        >> 1 basic.consume queue=c no_ack=True
        << 1 basic.consume-ok consumer_tag=b
        << 1 basic.consume-ok consumer_tag=a
        << 1 basic.consume-ok consumer_tag=amq.ctag-1
        """)
    assert channel.consumers == {"a": True, "b": False, "amq.ctag-1": True}


@pytest.mark.parametrize(
    "ending",
    [
        ">> 1 basic.cancel consumer_tag=c\n<< 1 basic.cancel-ok consumer_tag=c",
        ">> 1 basic.cancel consumer_tag=c no_wait=True",
        "<< 1 basic.cancel consumer_tag=c no_wait=True",
    ],
)
def test_a_consumer_ends(ending: str) -> None:
    channel = on_open_channel(DELIVERIES + ending)
    assert not channel.consumers
    assert len(channel.unacked) == 3, "what it was sent is still to be settled"


def test_a_rollback_takes_back_what_was_settled_since_the_last_commit() -> None:
    channel = on_open_channel(
        ">> 1 tx.select\n<< 1 tx.select-ok" + DELIVERIES + ">> 1 basic.ack delivery_tag=1\n"
        ">> 1 tx.commit\n<< 1 tx.commit-ok\n>> 1 basic.ack delivery_tag=3\n>> 1 tx.rollback\n<< 1 tx.rollback-ok"
    )
    assert channel.mode is ChannelMode.TX
    assert [tag for tag in range(1, 5) if tag in channel.unacked] == [2, 3]


def test_flow() -> None:
    channel = on_open_channel("<< 1 channel.flow active=False")
    assert channel.is_flowing == {CLIENT: False, SERVER: True}


def test_a_new_channel_of_an_old_number_is_as_new() -> None:
    connection = play(
        OPEN + CONFIRMS + DELIVERIES + ">> 1 channel.close\n<< 1 channel.close-ok\n>> 1 channel.open\n"
        "<< 1 channel.open-ok"
    )
    channel = connection.channels[1]
    assert (channel.mode, channel.state) == (ChannelMode.NORMAL, ChannelState.OPEN)
    assert not channel.consumers
    assert len(channel.unacked) == len(channel.unconfirmed) == 0
    assert channel.may_send(SERVER).isdisjoint({"basic.ack", "basic.get-ok"})


def test_a_number_is_free_once_its_channel_is_closed() -> None:
    connection = play(OPEN + ">> 1 channel.close\n<< 1 channel.close-ok")
    assert not connection.channels
    assert connection.may_send(CLIENT, 1) == {"channel.open"}
    assert connection.may_send(SERVER, 1) == frozenset()


# --- what it may hold


def test_there_is_a_limit_to_unanswered_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_AWAITED", 2)
    connection = play(OPEN + ">> 1 basic.qos\n>> 1 basic.qos\n>> 1 tx.select")
    with pytest.raises(ResourceError, match=r"more than 2 times basic.qos"):
        connection.send(CLIENT, 1, BasicQos())


def test_there_is_a_limit_to_consumers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CONSUMERS", 1)
    connection = play(OPEN + ">> 1 basic.consume consumer_tag=a no_wait=True")
    with pytest.raises(ResourceError, match="more than 1 consumers"):
        connection.send(CLIENT, 1, BasicConsume(consumer_tag="b", no_wait=True))


def test_an_error_leaves_a_content_where_it_was() -> None:
    connection = play(OPEN)
    connection.send(CLIENT, 1, BasicPublish())
    with pytest.raises(ProtocolError):
        connection.send(CLIENT, 1, BasicQos())
    assert connection.may_send(CLIENT, 1) == {"header"}
