"""What rules know of sessions that were attached before them."""

from __future__ import annotations

from amqproxy.amqp010.command_numbering import CommandNumbering
from amqproxy.amqp010.controls import SessionCommandPoint
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.transaction import TransactionMode
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010_interception.joining import join_sessions
from amqproxy.taps.metering.amqp010_meter import AttachmentMeter, Subscribed
from tests.proxy.amqp010_interception.amqp010_stage import AMQP010Stage, transfer


def numbered(numbering: CommandNumbering, data: bytes) -> None:
    """Have the whole frames in these bytes numbered."""
    numbering.numbers(FrameReader(frame_max=0).feed(data))


def test_they_know_the_next_ids_and_what_is_metered() -> None:
    stage = AMQP010Stage()
    stage.feed(CLIENT, transfer())
    numberings = {peer: CommandNumbering() for peer in Peer}
    numbered(numberings[CLIENT], encode_method(1, SessionCommandPoint(70, 0)))
    meter = AttachmentMeter()
    meter.consumers = {"d": Subscribed("q", True, False), "e": Subscribed("r", False, False)}
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
    stage = AMQP010Stage()
    join_sessions(
        stage.legs, {peer: CommandNumbering() for peer in Peer}, {peer: set() for peer in Peer}, lambda _: None
    )
    assert stage.interceptor.facts(1).consumers == 0


def test_the_rest_of_what_is_under_way_goes_on_and_what_follows_is_judged() -> None:
    stage = AMQP010Stage('action = "refuse"\nmatch.method = "basic.publish"')
    whole = transfer(body=b"x" * 9000)
    numberings = stage.interceptor.numberings
    numbered(numberings[CLIENT], encode_method(1, SessionCommandPoint(7, 0)) + whole[:5000])
    assert (numberings[CLIENT].current(1), numberings[CLIENT].following(1)) == (7, 8)
    stage.interceptor.join({CLIENT: {(1, 1), (1, 0)}, SERVER: set()}, lambda _: None)
    assert not stage.interceptor.waiting
    reader = stage.legs[CLIENT].readers[CLIENT]
    frames = reader.feed(whole)
    rest = frames[-1]
    stage.interceptor.take(CLIENT, [rest], 0)
    assert bytes(stage.interceptor.take_output(SERVER)) == rest.raw
    assert stage.feed(CLIENT, transfer())[1].startswith("<= 1 execution.exception error_code=403 command_id=8")
