"""Messages that are transferred in several parts, and message.resume. Section 10.2."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import (
    MessageAccept,
    MessageReject,
    MessageResume,
    MessageTransfer,
    QueueQuery,
    TxCommit,
    TxSelect,
)
from amqproxy.amqp010.domains import RejectCode
from amqproxy.amqp010.frame import BODY, COMMAND, FIRST_SEGMENT, HEADER, LAST_SEGMENT, encode_segment
from amqproxy.amqp010.properties import DeliveryProperties, FragmentProperties, Header, MessageProperties
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.broker.access.quotas import UserQuotas
from amqproxy.broker.amqp010 import fragments
from amqproxy.broker.broker import Broker
from amqproxy.broker.vhost import VirtualHost
from tests.broker.amqp010.client import Client010, Session010

ACCEPTED = MessageTransfer("", 0, 0)


@pytest.fixture
def session() -> Session010:
    session = Client010(Broker()).open().session()
    session.declare("q")
    return session


def first(key: str = "q", *, is_last: bool = False, **delivery: Any) -> Header:
    entries = DeliveryProperties(routing_key=key, **delivery), MessageProperties(content_type="text/plain")
    return Header((*entries, FragmentProperties(True, is_last)))


def following(*, is_last: bool) -> Header:
    return Header((FragmentProperties(False, is_last),))


def count(session: Session010) -> int:
    return int(session.call(QueueQuery("q")).message_count)


def transfer(session: Session010, header: Header, body: bytes) -> int:
    return session.send(ACCEPTED, header, body)


def test_the_parts_are_one_message(session: Session010) -> None:
    ids = [transfer(session, first(), b"one "), transfer(session, following(is_last=False), b"two ")]
    assert count(session) == 0
    assert set(ids) <= session.completed
    assert session.others == []
    ids.append(transfer(session, following(is_last=True), b"three"))
    session.take()
    assert session.others == [MessageAccept(SequenceSet([(ids[0], ids[1]), (ids[2], ids[2])]))]
    session.subscribe("q", "d")
    ((_, message),) = session.messages
    assert message.body == b"one two three"
    assert (message.properties.content_type, message.properties.content_length) == ("text/plain", 13)
    assert message.header is not None
    assert message.header.fragment is None
    assert session.client.broker.vhosts["/"].uncommitted_bytes == 0


def test_a_transfer_that_is_first_and_last_is_a_whole_message(session: Session010) -> None:
    transfer(session, first(is_last=True), b"whole")
    assert count(session) == 1


def test_messages_to_several_destinations_come_at_a_time(session: Session010) -> None:
    session.bind("q", "amq.fanout")
    transfer(session, first(), b"1")
    session.send(MessageTransfer("amq.fanout", 1, 0), first(), b"2")
    session.transfer(b"beside")
    transfer(session, following(is_last=True), b"1")
    session.send(MessageTransfer("amq.fanout", 1, 0), following(is_last=True), b"2")
    session.subscribe("q", "d")
    assert session.got() == [b"beside", b"11", b"22"]


def test_one_that_is_unroutable_is_rejected_with_all_its_parts(session: Session010) -> None:
    ids = [transfer(session, first("nowhere"), b"1"), transfer(session, following(is_last=True), b"2")]
    session.take()
    (reject,) = session.others
    assert isinstance(reject, MessageReject)
    assert (list(reject.transfers or ()), reject.code) == (ids, RejectCode.UNROUTABLE)


def test_it_is_published_in_the_transaction_of_its_last_part(session: Session010) -> None:
    transfer(session, first(), b"1")
    session.call(TxSelect())
    transfer(session, following(is_last=True), b"2")
    assert count(session) == 0
    session.call(TxCommit())
    assert count(session) == 1


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ([following(is_last=True)], 409),
        ([first(), first()], 409),
        ([Header((DeliveryProperties(), FragmentProperties(True, False)))] * 2, 409),
    ],
)
def test_parts_that_do_not_belong_together(session: Session010, headers: list[Header], code: int) -> None:
    for header in headers[:-1]:
        transfer(session, header, b"x")
    assert session.fault(ACCEPTED, headers[-1], b"x")[0] == code


def test_what_is_too_large_and_too_many(session: Session010, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragments, "MOST_OPEN", 1)
    transfer(session, first(), b"x")
    assert session.fault(MessageTransfer("amq.fanout", 0, 0), first(), b"x")[0] == 506
    small = Client010(Broker(max_message_size=10)).open().session()
    small.declare("q")
    transfer(small, first(), b"123456")
    assert small.fault(ACCEPTED, following(is_last=True), b"78901")[0] == 506
    assert small.client.broker.vhosts["/"].uncommitted_bytes == 0


def test_what_is_gone_on_with_is_no_more_than_what_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragments, "MOST_OPEN", 2)
    broker = Broker(max_message_size=10)
    for name, body in (("a", b"123"), ("b", b"456"), ("c", b"789"), ("large", b"12345678")):
        session = Client010(broker).open().session(1, name.encode())
        transfer(session, first(resume_id=name), body)
        session.client.connection.lose(session.client.now)
    other = again(broker)
    assert other.call(MessageResume("", "a")).offset == 3
    assert other.call(MessageResume("amq.fanout", "b")).offset == 3
    assert other.fault(MessageResume("amq.direct", "c"))[0] == 506
    other = again(broker)
    assert other.call(MessageResume("", "a")).offset == 3
    assert other.fault(MessageResume("amq.direct", "large"))[0] == 506
    assert broker.vhosts["/"].uncommitted_bytes == 17  # all wait again


def test_parts_with_many_other_commands_between_them(session: Session010, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragments, "MOST_RANGES", 2)
    transfer(session, first("nowhere"), b"1")
    session.transfer(b"between")
    transfer(session, following(is_last=False), b"")
    transfer(session, following(is_last=False), b"2")
    session.transfer(b"between")
    transfer(session, following(is_last=True), b"3")
    session.take()
    (reject,) = session.others
    assert isinstance(reject, MessageReject)
    assert len((reject.transfers or SequenceSet()).ranges) == 3
    for header in (first(), following(is_last=False), following(is_last=False)):
        transfer(session, header, b"")
        session.transfer(b"between")
    assert session.fault(ACCEPTED, following(is_last=True), b"")[0] == 506


def test_no_part_is_taken_for_an_exchange_that_is_not_there(session: Session010) -> None:
    assert session.fault(MessageTransfer("none", 0, 0), first(), b"x")[0] == 404


def again(broker: Broker, user: str = "guest") -> Session010:
    return Client010(broker).open(user=user, password=user).session(1, b"another")


def test_what_has_come_is_gone_on_with_in_another_session(session: Session010) -> None:
    broker = session.client.broker
    assert session.call(MessageResume("", "id")).offset == 0
    transfer(session, first(resume_id="id"), b"one ")
    assert session.call(MessageResume("", "id")).offset == 4
    session.client.connection.lose(session.client.now)
    other = again(broker)
    assert other.call(MessageResume("", "other")).offset == 0
    assert other.call(MessageResume("", "id")).offset == 4
    last = transfer(other, following(is_last=True), b"two")
    other.take()
    assert other.others == [MessageAccept(SequenceSet.of([last]))]
    other.subscribe("q", "d")
    assert other.got() == [b"one two"]
    assert (broker.vhosts["/"].interrupted, broker.vhosts["/"].uncommitted_bytes) == ({}, 0)


def test_a_transfer_that_was_cut_is_gone_on_with(session: Session010) -> None:
    broker = session.client.broker
    header = Header((DeliveryProperties(routing_key="q", resume_id="id"),))
    data = Assembly(1, ACCEPTED, header, b"x" * 100).encode(64)
    assert data.count(b"x") == 100
    end = len(data) - 40  # in the last frame but one
    session.client.feed(data[:end])
    session.client.connection.lose(session.client.now)
    other = again(broker)
    offset = other.call(MessageResume("", "id")).offset
    assert 0 < offset < 100
    transfer(other, following(is_last=True), b"y" * (100 - offset))
    other.subscribe("q", "d")
    assert other.got() == [b"x" * offset + b"y" * (100 - offset)]


def test_what_was_cut_without_a_resume_id_is_gone(session: Session010) -> None:
    transfer(session, first(), b"one ")
    session.client.feed(Assembly(1, ACCEPTED, following(is_last=True), b"x" * 100).encode(64)[:100])
    session.client.connection.lose(session.client.now)
    vhost = session.client.broker.vhosts["/"]
    assert (vhost.interrupted, vhost.uncommitted_bytes, len(vhost.timed)) == ({}, 0, 0)


@pytest.mark.parametrize("malformed", [b"", b"\x04\x01"])
def test_a_cut_transfer_that_is_malformed_keeps_nothing_from_going_back(session: Session010, malformed: bytes) -> None:
    session.transfer(b"held")
    broker = session.client.broker
    other = again(broker)
    other.subscribe("q", "d")
    assert other.got() == [b"held"]
    data = encode_segment(FIRST_SEGMENT, COMMAND, 1, malformed or ACCEPTED.encode(), 64)
    data += encode_segment(0, HEADER, 1, b"\x00\x00\x00\x09\x04\x01\xff\xff", 64)
    other.client.feed(data + encode_segment(LAST_SEGMENT, BODY, 1, b"x" * 100, 64)[:80])
    other.client.connection.lose(other.client.now)
    assert count(session) == 1
    assert broker.vhosts["/"].queues["q"].unacked == 0


def test_it_is_kept_for_its_time(session: Session010) -> None:
    broker = session.client.broker
    transfer(session, first(resume_id="id", resume_ttl=5000), b"one ")
    session.client.connection.lose(session.client.now)
    other = again(broker)
    other.client.now += 4
    other.client.tick()
    assert broker.vhosts["/"].uncommitted_bytes == 4
    other.client.now += 1
    other.client.tick()
    assert other.call(MessageResume("", "id")).offset == 0
    assert broker.vhosts["/"].uncommitted_bytes == 0


def test_it_is_its_users_alone_and_goes_with_its_virtual_host(session: Session010) -> None:
    broker = session.client.broker
    transfer(session, first(resume_id="id"), b"one ")
    session.client.connection.lose(session.client.now)
    vhost = broker.vhosts["/"]
    assert fragments.Fragments(vhost, "other", 100).resume("", "id") == 0
    for _ in vhost.clearing():
        pass
    assert (vhost.interrupted, vhost.uncommitted_bytes, len(vhost.timed)) == ({}, 0, 0)


def test_what_is_kept_of_one_user_is_bounded() -> None:
    vhost = VirtualHost("v", quotas=UserQuotas(interrupted=2, interrupted_bytes=10))
    for name, size in (("large", 11), ("a", 3), ("a", 4), ("b", 6), ("c", 1)):
        kept = fragments.Fragments(vhost, "u", 100)
        kept.add("", first(resume_id=name), b"x" * size)
        kept.end(0.0)
    assert {name: each.size for (_, name), each in vhost.interrupted.items()} == {"a": 4, "b": 6}
    assert vhost.uncommitted_bytes == 10
    other = fragments.Fragments(vhost, "other", 100)
    other.add("", first(resume_id="a"), b"x" * 10)
    other.end(0.0)
    assert len(vhost.interrupted) == 3
    vhost.tick(fragments.MOST_TTL)
    assert (vhost.quotas.interrupted.used("u"), vhost.quotas.interrupted_bytes.used("u")) == (0, 0)


@pytest.mark.parametrize(
    ("command", "code"), [(MessageResume("", None), 531), (MessageResume("none", "id"), 404), (MessageResume(), 531)]
)
def test_what_cannot_be_resumed(session: Session010, command: MessageResume, code: int) -> None:
    assert session.fault(command)[0] == code
