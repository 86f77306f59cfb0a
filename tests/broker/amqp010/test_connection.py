"""A connection of AMQP 0-10: its handshake, what is refused, and what one client does that is not another's trouble."""

from __future__ import annotations

import sys

import pytest

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import ExecutionSync, MessageAccept, MessageFlow, MessageSubscribe, MessageTransfer
from amqproxy.amqp010.controls import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionHeartbeat,
    ConnectionOpen,
    ConnectionTuneOk,
    SessionAttach,
    SessionGap,
)
from amqproxy.amqp010.frame import (
    BODY,
    COMMAND,
    FIRST_FRAME,
    FIRST_SEGMENT,
    LAST_FRAME,
    LAST_SEGMENT,
    WHOLE_SEGMENT,
    encode_frame,
    encode_method,
)
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.broker.access.users import User
from amqproxy.broker.broker import Broker
from amqproxy.broker.connections.closing import SocketClosing
from amqproxy.broker.events import BrokerEvent
from tests.broker.amqp010.client import Client010


def closed(client: Client010) -> ConnectionClose:
    """The close that the broker has sent last."""
    close = client.receive()[-1].method
    assert isinstance(close, ConnectionClose)
    return close


def test_the_handshake() -> None:
    client = Client010(Broker()).open()
    assert client.connection.vhost is not None
    assert client.connection.user.name == "guest"
    client.send(0, ConnectionClose(200, "bye"))
    assert client.names() == ["connection.close-ok"]
    assert client.connection.end is SocketClosing.CLOSED


def test_qpids_clients_leave_selectors_to_the_broker() -> None:
    client = Client010(Broker())
    client.feed(HEADER)
    (start,) = client.receive()
    properties = start.method.server_properties
    assert properties["qpid.features"] == ["qpid.jms-selector"]
    assert properties["product"] == client.broker.properties["product"]


def test_the_bytes_may_come_one_by_one() -> None:
    client = Client010(Broker())
    opening = HEADER + encode_method(0, Client010.start_ok())
    opening += encode_method(0, ConnectionTuneOk(100, 65_535, 0)) + encode_method(0, ConnectionOpen("/"))
    for byte in opening:
        client.feed(bytes([byte]))
    assert client.names() == ["connection.start", "connection.tune", "connection.open-ok"]


def test_no_virtual_host_is_the_default_one() -> None:
    assert Client010(Broker()).open(None).connection.vhost is not None


def test_a_wrong_password_is_answered_and_kept_for_a_while() -> None:
    client = Client010(Broker())
    client.feed(HEADER)
    client.send(0, client.start_ok(password="wrong"))
    close = closed(client)
    assert (close.reply_code, close.reply_text) == (320, "connection-forced: Authentication failed")
    assert len(client.broker.refused) == 1


@pytest.mark.parametrize(("vhost", "code"), [("none", 402), ("other", 320)])
def test_a_virtual_host_that_is_not_for_it(vhost: str, code: int) -> None:
    broker = Broker()
    broker.add_vhost("other")
    client = Client010(broker)
    client.feed(HEADER)
    client.send(0, client.start_ok())
    client.send(0, ConnectionTuneOk(100, 65_535, 0))
    client.send(0, ConnectionOpen(vhost))
    assert closed(client).reply_code == code
    client.send(0, ConnectionCloseOk())
    assert client.connection.end is SocketClosing.AGREED


def test_what_may_not_come_closes_the_connection_with_501() -> None:
    for method in (ConnectionOpen("/"), ConnectionTuneOk(), ConnectionCloseOk()):
        client = Client010(Broker()).open()
        client.send(0, method)
        assert closed(client).reply_code == 501


def test_before_login_it_is_cut_without_a_word() -> None:
    client = Client010(Broker())
    client.feed(HEADER)
    client.send(1, SessionAttach(b"s"))
    assert client.names() == ["connection.start"]
    assert client.connection.end is SocketClosing.REFUSED


def test_a_malformed_frame_closes_the_connection() -> None:
    client = Client010(Broker()).open()
    client.feed(b"\xff" * 12)
    assert closed(client).reply_code == 501


def test_a_malformed_command_ends_the_session_alone() -> None:
    client = Client010(Broker()).open()
    session, other = client.session(), client.session(2, b"other")
    client.feed(encode_frame(15, 1, 1, b"\x04\x02\x01\x00\xff\xff"))
    session.take()
    assert session.exception is not None
    assert session.exception.error_code in (503, 531)
    other.declare("q")


def test_what_was_not_offered_cannot_be_agreed() -> None:
    client = Client010(Broker(channel_max=10))
    client.feed(HEADER)
    client.send(0, client.start_ok())
    client.send(0, ConnectionTuneOk(11, 65_535, 0))
    assert closed(client).reply_text == "framing-error: a channel-max of 11, where 10 was offered"


def test_what_has_come_of_a_command_counts_and_nothing_else_stays_with_it() -> None:
    broker = Broker()
    client = Client010(broker).open()
    client.session().call(ExecutionSync())
    before = broker.bytes_in_memory
    begun = encode_frame(FIRST_SEGMENT | WHOLE_SEGMENT, COMMAND, 1, MessageTransfer("", 1, 0).encode())
    begun += encode_frame(LAST_SEGMENT | FIRST_FRAME, BODY, 1, bytes(1000))
    others = encode_method(0, ConnectionHeartbeat()) * 1000
    data = begun + others
    references = sys.getrefcount(data)
    client.feed(data)
    client.feed(others)
    assert sys.getrefcount(data) == references
    client.receive()
    assert broker.bytes_in_memory == before + 1000
    client.feed(encode_frame(LAST_SEGMENT | LAST_FRAME, BODY, 1, b"the rest"))
    client.receive()
    assert broker.bytes_in_memory == before


def test_heartbeats() -> None:
    client = Client010(Broker()).open()
    client.connection.liveness.heartbeat = 10
    client.now += 6
    client.tick()
    client.connection.tick(client.now)
    assert client.names() == ["connection.heartbeat"]
    client.send(0, ConnectionHeartbeat())
    client.now += 21
    client.connection.tick(client.now)
    assert client.connection.end is SocketClosing.LOST


def test_who_does_not_open_is_cut() -> None:
    client = Client010(Broker())
    client.feed(HEADER)
    client.now += 11
    client.tick()
    assert client.connection.end is SocketClosing.LOST


def test_publishers_wait_while_memory_is_short() -> None:
    client = Client010(Broker()).open()
    session = client.session()
    session.declare("q")
    client.broker.set_alarm("memory", True, client.now)
    session.transfer(b"waits")
    assert client.connection.is_blocked
    assert client.broker.vhosts["/"].queues["q"].message_count == 0
    client.broker.set_alarm("memory", False, client.now)
    client.rest()
    assert client.broker.vhosts["/"].queues["q"].message_count == 1


def test_a_user_that_may_nothing() -> None:
    broker = Broker()
    user = User.with_password("ann", "secret")
    broker.add_user(user)
    user.permit("/", None)
    with pytest.raises(AssertionError):
        Client010(broker).open(user="ann", password="secret")


RUDE: list[tuple[str, list[Method] | bytes]] = [
    ("rubbish", b"\x00" * 4096),
    ("a set of everything", [MessageAccept(SequenceSet([(0, 0x7FFF_FFFF)])) for _ in range(50)]),
    ("a gap of everything", [SessionGap(SequenceSet([(0, 0x7FFF_FFFF)]))]),
    ("no such subscription", [MessageFlow("none", 0, 1)]),
    ("no such queue", [MessageSubscribe("none", "d", 0, 0)]),
    ("a half assembly", encode_frame(8 | 2, 1, 1, b"\x04\x01\x01\x00")),
]


@pytest.mark.parametrize(("name", "what"), RUDE, ids=[name for name, _ in RUDE])
def test_one_that_misbehaves_harms_no_other(name: str, what: list[Method] | bytes) -> None:
    broker = Broker()
    broker.work.quantum.limit(step=64)  # without a clock, each turn is over after so many operations
    good = Client010(broker).open().session(1, b"good")
    good.declare("q")
    good.subscribe("q", "d")
    rude = Client010(broker).open()
    session = rude.session(1, b"rude")
    if isinstance(what, bytes):
        rude.feed(what)
    else:
        for each in what:
            rude.feed(Assembly(1, each).encode())
    good.transfer(b"hello")
    for _ in range(3):
        broker.work.go_on(good.client.now)
    data = good.client.connection.take_output()
    assert b"hello" in data
    rude.connection.lose(rude.now)
    assert session.name == b"rude"


def test_a_close_that_waits_behind_a_blocked_transfer_is_answered() -> None:
    client = Client010(Broker()).open()
    session = client.session()
    client.broker.set_alarm("memory", True, client.now)
    session.transfer(b"waits")
    client.send(0, ConnectionClose(200, "bye"))
    assert client.names() == []
    client.connection.close("the broker shuts down", client.now)
    assert client.names() == ["connection.close", "connection.close-ok"]
    client.send(0, ConnectionCloseOk())
    assert client.connection.end is SocketClosing.AGREED


def test_exclusive_queues_end_in_the_order_of_their_declaration() -> None:
    client = Client010(Broker()).open()
    session = client.session()
    names = ["a", "b", "c"]
    for name in names:
        session.declare(name, exclusive=True, auto_delete=True)
    events: list[BrokerEvent] = []
    client.broker.events.observers.append(events.append)
    client.connection.lose(client.now)
    client.rest()
    assert [event.subject.name for event in events if event.name == "queue.deleted"] == names
