"""Controls and commands of AMQP 0-10 as methods of 0-9-1, both ways."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from amqproxy.amqp010 import commands, controls
from amqproxy.amqp010.methods import Method as Method010
from amqproxy.amqp010.results import QueueQueryResult, XaResult
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.wire import Array
from amqproxy.amqp091 import methods
from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.wire import Table
from amqproxy.conversion.amqp010.method_views import INFINITE, SHAPES, method_view, shape_of
from amqproxy.conversion.view_fields import QueueQueryOk
from amqproxy.peer import CLIENT, SERVER, Peer

FIVE = SequenceSet([(2, 4), (6, 7)])
ONE = SequenceSet([(9, 9)])


@pytest.mark.parametrize(
    ("sender", "original", "view"),
    [
        (
            SERVER,
            controls.ConnectionStart(None, Array("str16", ["PLAIN"]), Array("str16", ["en_US"])),
            methods.ConnectionStart(0, 10, Table(), b"PLAIN", b"en_US"),
        ),
        (
            CLIENT,
            controls.ConnectionStartOk(None, "PLAIN", b"\0a\0b", "en_US"),
            methods.ConnectionStartOk(Table(), "PLAIN", b"\0a\0b", "en_US"),
        ),
        (SERVER, controls.ConnectionTune(10, 4096, 0, 60), methods.ConnectionTune(10, 4096, 60)),
        (CLIENT, controls.ConnectionTuneOk(10, None, 5), methods.ConnectionTuneOk(10, 0, 5)),
        (CLIENT, controls.ConnectionOpen("v"), methods.ConnectionOpen("v")),
        (SERVER, controls.ConnectionClose(320, "bye"), methods.ConnectionClose(320, "bye")),
        (CLIENT, controls.SessionAttach(b"s"), methods.ChannelOpen()),
        (SERVER, controls.SessionDetached(b"s", 0), methods.ChannelCloseOk()),
        (CLIENT, commands.MessageAccept(FIVE), methods.BasicAck(7, True)),
        (SERVER, commands.MessageAccept(ONE), methods.BasicAck(9, False)),
        (CLIENT, commands.MessageRelease(ONE), methods.BasicNack(9, False, True)),
        (CLIENT, commands.MessageReject(ONE, 0), methods.BasicReject(9, False)),
        (SERVER, commands.MessageReject(FIVE, 1), methods.BasicNack(7, True, False)),
        (
            CLIENT,
            commands.MessageSubscribe("q", "tag", 1, 0, exclusive=True),
            methods.BasicConsume(queue="q", consumer_tag="tag", no_ack=True, exclusive=True, no_wait=True),
        ),
        (CLIENT, commands.MessageCancel("tag"), methods.BasicCancel("tag", True)),
        (CLIENT, commands.MessageFlow("tag", 0, 10), methods.BasicQos(0, 10)),
        (CLIENT, commands.MessageFlow("tag", 0, INFINITE), methods.BasicQos(0, 0)),
        (CLIENT, commands.MessageFlow("tag", 1, 10), None),
        (CLIENT, commands.TxCommit(), methods.TxCommit()),
        (
            CLIENT,
            commands.ExchangeDeclare("x", "topic", "alt"),
            methods.ExchangeDeclare(
                exchange="x", type="topic", no_wait=True, arguments=Table({"alternate-exchange": "alt"})
            ),
        ),
        (
            CLIENT,
            commands.ExchangeQuery("x"),
            methods.ExchangeDeclare(exchange="x", type="", passive=True, no_wait=True),
        ),
        (
            CLIENT,
            commands.ExchangeBind("q", "x", "k"),
            methods.QueueBind(queue="q", exchange="x", routing_key="k", no_wait=True),
        ),
        (CLIENT, commands.ExchangeUnbind("q", "x", "k"), methods.QueueUnbind(queue="q", exchange="x", routing_key="k")),
        (CLIENT, commands.QueueQuery("q"), methods.QueueDeclare(queue="q", passive=True, no_wait=True)),
        (CLIENT, commands.QueueDeclare("q", ""), methods.QueueDeclare(queue="q", no_wait=True)),
        (CLIENT, commands.QueuePurge("q"), methods.QueuePurge(queue="q", no_wait=True)),
        (SERVER, commands.ExecutionException(404, description="none"), methods.ChannelClose(404, "none")),
        (
            SERVER,
            commands.ExecutionResult(1, QueueQueryResult("q", message_count=3, subscriber_count=2)),
            QueueQueryOk("q", 3, 2),
        ),
        (SERVER, commands.ExecutionResult(1, XaResult(0)), None),
        (CLIENT, commands.DtxSelect(), None),
        (CLIENT, controls.SessionCompleted(ONE), None),
    ],
)
def test_views(sender: Peer, original: Method010, view: Method | None) -> None:
    assert method_view(sender, original) == view


@pytest.mark.parametrize(
    ("sender", "original", "changes", "result"),
    [
        (CLIENT, commands.MessageFlow("t", 0, INFINITE), {"prefetch_count": 5}, commands.MessageFlow("t", 0, 5)),
        (
            CLIENT,
            commands.MessageSubscribe("q", "t", 1, 0),
            {"no_ack": False, "consumer_tag": "u"},
            commands.MessageSubscribe("q", "u", 0, 0),
        ),
        (
            SERVER,
            controls.ConnectionTune(10, 9000, 50, 60),
            {"frame_max": 4096, "heartbeat": 20},
            controls.ConnectionTune(10, 4096, 20, 20),
        ),
        (
            SERVER,
            commands.ExecutionException(404, description="queue 'a'"),
            {"reply_text": "queue 'b'"},
            commands.ExecutionException(404, description="queue 'b'"),
        ),
        (
            SERVER,
            commands.ExecutionResult(1, QueueQueryResult("a", message_count=0, subscriber_count=0)),
            {"queue": "b"},
            commands.ExecutionResult(1, QueueQueryResult("b", message_count=0, subscriber_count=0)),
        ),
        (
            SERVER,
            commands.ExecutionResult(1, QueueQueryResult("q", "a.x", message_count=0, subscriber_count=0)),
            {"alternate_exchange": "x"},
            commands.ExecutionResult(1, QueueQueryResult("q", "x", message_count=0, subscriber_count=0)),
        ),
    ],
)
def test_changes(sender: Peer, original: Method010, changes: dict[str, object], result: Method010) -> None:
    shape = shape_of(sender, original)
    assert shape is not None
    before = shape.view(original)
    assert shape.changed(original, before, replace(before, **changes)) == result


def test_every_view_can_be_encoded() -> None:
    """Rules look at them as at what has been received."""
    for shapes in SHAPES.values():
        for cls, shape in shapes.items():
            if cls is not commands.ExecutionResult:
                assert shape.view(cls()).encode()
