"""Completions and acceptances, each of one range: which are taken at once, and that this comes to the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp010.commands import MessageAccept, MessageRelease, QueueQuery, TxSelect
from amqproxy.amqp010.controls import SessionCompleted
from amqproxy.amqp010.domains import AcceptMode
from amqproxy.amqp010.frame import FIRST_SEGMENT, LAST_SEGMENT, OVERHEAD, Frame, encode_method, encode_segment
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.broker.amqp010.settlement_run import MOST, SettlementRun
from amqproxy.broker.broker import Broker
from amqproxy.broker.connections.deliveries import AT_ONCE
from tests.broker.amqp010.client import INFINITE, Client010

LAST = 2**32 - 1

Made = Callable[[int, int], SessionCompleted | MessageAccept]


def completed(first: int, last: int) -> SessionCompleted:
    return SessionCompleted(SequenceSet([(first, last)]))


def accept(first: int, last: int) -> MessageAccept:
    return MessageAccept(SequenceSet([(first, last)]))


def gathered(*methods: Method, sent: int = 500, channels: tuple[int, ...] = ()) -> tuple[int, range, range, int]:
    frames = [
        Frame(encode_method(channels[number] if channels else 1, method)) for number, method in enumerate(methods)
    ]
    run = SettlementRun()
    count = run.gather(frames, 0, sent)
    return count, run.completed, run.accepted, run.accepts


def test_one_by_one_is_one_range() -> None:
    one_by_one = [made(number, number) for number in range(3, 7) for made in (completed, accept)]
    assert gathered(*one_by_one) == (8, range(3, 7), range(3, 7), 4)
    assert gathered(completed(0, 3), completed(0, 9), accept(2, 3)) == (3, range(10), range(2, 4), 1)


def test_ids_roll_over() -> None:
    methods = [accept(LAST - 1, LAST), accept(0, 0), completed(LAST, 1)]
    assert gathered(*methods, sent=LAST + 5) == (3, range(LAST, LAST + 3), range(LAST - 1, LAST + 2), 2)


@pytest.mark.parametrize(
    "other",
    [
        completed(5, 5),
        completed(1, 2),
        completed(4, 2),
        SessionCompleted(SequenceSet([(3, 3)]), timely_reply=True),
        SessionCompleted(SequenceSet([(3, 3), (5, 5)])),
        SessionCompleted(),
        MessageAccept(SequenceSet([(0, 0), (2, 2)])),
        MessageAccept(SequenceSet([(3, 3)]), sync=True),
        MessageRelease(SequenceSet([(3, 3)])),
        accept(0, AT_ONCE),
        accept(490, 500),
    ],
)
def test_what_is_no_part_of_a_run_ends_it(other: Method) -> None:
    assert gathered(completed(2, 3), other, completed(4, 4)) == (1, range(2, 4), range(0), 0)


def test_a_run_is_of_one_channel() -> None:
    assert gathered(completed(2, 2), completed(3, 3), channels=(1, 2))[0] == 1


def test_a_run_is_bounded() -> None:
    assert gathered(*[completed(number, number) for number in range(2 * MOST)])[0] == MOST
    assert gathered(*[accept(number, number) for number in range(2 * AT_ONCE)])[0] == AT_ONCE


def test_a_frame_that_is_cut_is_none() -> None:
    pieces = encode_segment(FIRST_SEGMENT | LAST_SEGMENT, accept(1, 1).segment, 1, accept(1, 1).encode(), OVERHEAD + 9)
    size = OVERHEAD + 9
    assert SettlementRun().gather([Frame(pieces[:size]), Frame(pieces[size:])], 0, 9) == 0


settlements = st.lists(
    st.tuples(st.sampled_from([completed, accept]), st.integers(-3, 9), st.integers(-1, 3)), min_size=1, max_size=30
)
in_order = st.integers(1, 20).map(lambda count: [(made, n, 0) for n in range(count) for made in (completed, accept)])


@settings(max_examples=40)  # each is two brokers
@given(
    plan=st.one_of(settlements, in_order),
    credit=st.sampled_from([INFINITE, 2, 7]),
    accepts=st.booleans(),
    is_transactional=st.booleans(),
)
def test_a_run_comes_to_what_its_frames_come_to(
    plan: list[tuple[Made, int, int]], credit: int, accepts: bool, is_transactional: bool
) -> None:
    """What is cut into two frames each is decoded, and taken by itself."""
    assert settled(plan, credit, accepts, is_transactional, cut=0) == settled(
        plan, credit, accepts, is_transactional, cut=OVERHEAD + 9
    )


def test_a_browser_that_goes_on_with_a_completion_leaves_what_is_accepted_behind_it() -> None:
    client = Client010(Broker()).open()
    session = client.session()
    for name in ("browsed", "consumed"):
        session.declare(name)
        session.transfer(b"1", key=name)
        session.transfer(b"2", key=name)
    session.subscribe("browsed", "b", acquire_mode=1, messages=1)
    session.subscribe("consumed", "d", messages=1)
    assert session.got() == [b"1", b"1"]
    session.call(MessageRelease(SequenceSet([(0, 0)])))
    client.feed(b"".join(encode_method(1, method) for method in (completed(0, 0), accept(1, 1))))
    client.rest()
    assert session.got() == [b"2"]
    assert client.broker.vhosts["/"].queues["consumed"].unacked == 0


def settled(
    plan: list[tuple[Made, int, int]], credit: int, accepts: bool, is_transactional: bool, *, cut: int
) -> tuple[bytes, int, bytes]:
    client = Client010(Broker()).open()
    session = client.session()
    session.declare("q")
    for number in range(20):
        session.transfer(b"%d" % number)
    session.subscribe("q", "d", accept_mode=AcceptMode.EXPLICIT if accepts else AcceptMode.NONE, messages=credit)
    session.take()
    if is_transactional:
        session.call(TxSelect())
    data = b""
    for made, first, more in plan:
        method = made(first % (LAST + 1), (first + more) % (LAST + 1))
        data += encode_segment(FIRST_SEGMENT | LAST_SEGMENT, method.segment, 1, method.encode(), cut)
    client.feed(data)
    client.rest()
    sent = client.connection.take_output()
    client.connection.sent(client.now)
    queue = client.broker.vhosts["/"].queues["q"]
    held = queue.unacked
    client.send(1, QueueQuery("q"))
    return sent, held, client.connection.take_output()
