"""What rules know of sessions that were attached before them."""

from __future__ import annotations

from amqproxy.amqp010.command_numbering import CommandNumbering
from amqproxy.amqp010.controls import SessionCommandPoint
from amqproxy.amqp010.frame import Frame, encode_method
from amqproxy.amqp010.transaction import TransactionMode
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010.interception.joining import join_sessions
from amqproxy.taps.metering.amqp010.meter import AttachmentMeter, Subscribed
from tests.proxy.amqp010.interception.amqp010_stage import Amqp010Stage, transfer


def point(command_id: int) -> Frame:
    """A session.command-point on channel 1."""
    return Frame(encode_method(1, SessionCommandPoint(command_id, 0)))


def test_they_know_the_next_ids_and_what_is_metered() -> None:
    stage = Amqp010Stage()
    stage.feed(CLIENT, transfer())
    numberings = {peer: CommandNumbering() for peer in Peer}
    numberings[CLIENT].number(point(70))
    meter = AttachmentMeter()
    meter.consumers.update({"d": Subscribed("q", True, False), "e": Subscribed("r", False, False)})
    meter.is_transactional = True
    under_way: dict[Peer, set[tuple[int, int]]] = {CLIENT: {(1, 1)}, SERVER: set()}
    join_sessions(stage.legs, numberings, under_way, {1: meter}.get)
    for leg in stage.legs.values():
        session = leg.channels[1].session
        assert session is not None
        assert (session.streams[CLIENT].next, session.streams[SERVER].next) == (70, None)
        assert {name: (each.queue, each.modes) for name, each in session.subscriptions.items()} == {
            "d": ("q", (1, 0)),
            "e": ("r", (0, 0)),
        }
        assert session.transaction.mode is TransactionMode.TX
        assert not session.transfers[CLIENT].acquired
    facts = stage.interceptor.facts(1)
    assert (facts.consumers, facts.is_transactional, facts.unacked) == (2, True, 0)


def test_where_nothing_is_metered_the_rest_is_known() -> None:
    stage = Amqp010Stage()
    join_sessions(
        stage.legs, {peer: CommandNumbering() for peer in Peer}, {peer: set() for peer in Peer}, lambda _: None
    )
    assert stage.interceptor.facts(1).consumers == 0


def test_the_rest_of_what_is_under_way_goes_on_and_what_follows_is_judged() -> None:
    stage = Amqp010Stage('action = "refuse"\nmatch.method = "basic.publish"')
    numbering = stage.interceptor.numberings[CLIENT]
    *begin, rest = stage.legs[CLIENT].readers[CLIENT].feed(transfer(body=b"x" * 9000))
    assert numbering.numbers([point(7), *begin]) == [None, 7, 7, 7]
    stage.interceptor.join({CLIENT: {(1, 1), (1, 0)}, SERVER: set()}, lambda _: None)
    stage.interceptor.take(CLIENT, [rest], 0)
    assert bytes(stage.interceptor.take_output(SERVER)) == rest.raw
    assert stage.feed(CLIENT, transfer())[1].startswith("<= 1 execution.exception error_code=403 command_id=8")
