"""Channels of a shared connection are fresh, end with their own close, and have fair turns."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.frame import BODY, HEADER, Frame, encode_frame, encode_method
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.methods import (
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUnblocked,
)
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.proxy.amqp091.pools.lane import Lane
from amqproxy.proxy.amqp091.pools.shared_connection import LEAST_RESERVE, MOST_RESERVE, QUANTUM, SharedConnection
from tests.proxy.amqp091.pools.open_connection import BrokerSide, methods_in, open_connection

ALL = 1 << 30
CLOSE = ChannelClose(404, "NOT_FOUND - no exchange 'nope' in vhost '/'", 60, 40)


class User:
    """The user of a channel, who notes what it is told."""

    def __init__(self) -> None:
        self.taken: list[Any] = []
        self.ends: list[ChannelClose | None] = []

    def take(self, frame: Frame) -> None:
        self.taken.append(frame.method)

    def take_close(self, close: ChannelClose) -> None:
        self.ends.append(close)

    def take_close_ok(self) -> None:
        self.ends.append(None)


class Pair:
    """A shared connection and its broker, which answers what every broker does."""

    def __init__(self, channel_max: int = 2047) -> None:
        self.shared = SharedConnection(open_connection(channel_max))
        self.broker = BrokerSide()
        self.sent: list[tuple[int, Any]] = []
        self.shared.fill_reserve()
        self.exchange()

    def exchange(self) -> None:
        """Pass bytes both ways until nothing is left."""
        while self.shared.has_output:
            found = methods_in(self.broker.read(self.shared.take_output(ALL)))
            self.sent += found
            for channel, method in found:
                match method:
                    case ChannelOpen():
                        self.write(channel, ChannelOpenOk())
                    case ConfirmSelect():
                        self.write(channel, ConfirmSelectOk())
                    case ChannelClose():
                        self.write(channel, ChannelCloseOk())
                    case _:
                        pass

    def write(self, channel: int, method: Any) -> None:
        self.shared.feed(self.broker.write((channel, method)))

    def take(self, user: User | None = None, lane: Lane | None = None) -> int:
        number = self.shared.take_channel(user or User(), lane or Lane())
        assert number is not None
        self.exchange()
        return number


def message(channel: int, size: int = 1) -> bytes:
    return (
        encode_method(channel, BasicPublish(0, "", "q"))
        + encode_frame(HEADER, channel, ContentHeader(size).encode())
        + encode_frame(BODY, channel, b"x" * size)
    )


def test_channels_are_opened_ahead_of_their_use() -> None:
    pair = Pair()
    assert [channel for channel, _ in pair.sent] == list(range(1, LEAST_RESERVE + 1))
    assert pair.take() == 1
    assert pair.sent[-1] == (LEAST_RESERVE + 1, ChannelOpen())


def test_no_channel_is_used_twice_while_others_are_fresh() -> None:
    pair = Pair()
    used = []
    for _ in range(100):
        used.append(pair.take(user := User()))
        pair.shared.close_channel(used[-1], user)
        pair.exchange()
    closed = [channel for channel, method in pair.sent if isinstance(method, ChannelClose)]
    assert closed == used


def test_the_reserve_grows_when_it_was_empty() -> None:
    pair = Pair()
    for _ in range(LEAST_RESERVE):
        assert pair.shared.take_channel(User(), Lane()) is not None
    assert pair.shared.take_channel(User(), Lane()) is None
    pair.exchange()
    for _ in range(2 * LEAST_RESERVE):
        assert pair.shared.take_channel(User(), Lane()) is not None


def test_the_reserve_is_bounded() -> None:
    pair = Pair()
    for _ in range(20):
        while pair.shared.take_channel(User(), Lane()) is not None:
            pass
        pair.exchange()
    opened = [channel for channel, method in pair.sent if isinstance(method, ChannelOpen)]
    assert len(opened) - pair.shared.channels <= MOST_RESERVE


def test_no_more_channels_are_opened_than_the_broker_allows() -> None:
    pair = Pair(channel_max=3)
    users = [User() for _ in range(3)]
    second = [pair.take(user) for user in users].index(2)
    assert pair.shared.take_channel(User(), Lane()) is None
    assert not pair.shared.can_open
    pair.shared.close_channel(2, users[second])
    assert not pair.shared.can_open
    pair.exchange()
    assert pair.take() == 2


def test_a_channel_is_closed_once() -> None:
    pair = Pair()
    number = pair.take(user := User())
    pair.shared.close_channel(number, user)  # as the client asks
    pair.shared.close_channel(number, user)  # as it leaves before the broker has answered
    sent = methods_in(FrameReader(frame_max=0).feed(pair.shared.take_output(ALL)))
    assert [channel for channel, method in sent if isinstance(method, ChannelClose)] == [number]


def test_what_a_user_has_queued_is_dropped_when_the_broker_closes_its_channel() -> None:
    pair, user, lane = Pair(), User(), Lane()
    number = pair.take(user, lane)
    pair.shared.put(number, message(number))
    pair.shared.close_channel(number, user)
    pair.write(number, CLOSE)
    pair.exchange()
    assert user.ends == [CLOSE]
    assert pair.sent[-1] == (number, ChannelCloseOk())
    assert not any(channel == number and isinstance(method, BasicPublish) for channel, method in pair.sent)
    assert lane.size == 0


def test_a_number_is_given_again_after_both_close_oks_only() -> None:
    pair = Pair(channel_max=1)
    number = pair.take(user := User())
    pair.shared.close_channel(number, user)
    closing = pair.shared.take_output(ALL)
    pair.write(number, CLOSE)  # they cross
    assert not pair.shared.can_open
    pair.broker.read(closing)
    pair.broker.read(pair.shared.take_output(ALL))
    assert not pair.shared.can_open
    pair.write(number, ChannelCloseOk())
    assert pair.shared.can_open


def test_a_user_that_has_left_is_told_nothing() -> None:
    pair, user = Pair(), User()
    number = pair.take(user)
    pair.shared.close_channel(number, user)
    pair.shared.detach(number, user, is_settled=True)
    pair.exchange()
    assert user.ends == []
    assert pair.shared.channels == 0


def test_nobody_closes_or_leaves_a_channel_that_has_become_anothers() -> None:
    pair, former, user = Pair(channel_max=1), User(), User()
    number = pair.take(former)
    pair.shared.close_channel(number, former)
    pair.exchange()
    assert pair.take(user) == number
    pair.shared.close_channel(number, former)
    pair.shared.detach(number, former, is_settled=False)
    pair.exchange()
    assert user.ends == []
    pair.write(number, CLOSE)
    assert user.ends == [CLOSE]


def test_the_end_of_a_channel_comes_behind_its_messages() -> None:
    pair = Pair()
    number = pair.take(user := User())
    pair.shared.put(number, message(number))
    pair.shared.close_channel(number, user)
    pair.exchange()
    assert [type(method) for channel, method in pair.sent if channel == number] == [
        ChannelOpen,
        BasicPublish,
        ChannelClose,
    ]


def test_frames_reach_the_user_of_their_channel() -> None:
    pair, users = Pair(), [User(), User()]
    numbers = [pair.take(user) for user in users]
    for number in numbers:
        pair.shared.put(number, encode_method(number, ConfirmSelect()), is_method=True)
    pair.exchange()
    assert [user.taken for user in users] == [[ConfirmSelectOk()], [ConfirmSelectOk()]]


def test_the_broker_may_block_the_connection() -> None:
    pair = Pair()
    pair.write(0, ConnectionBlocked("low on memory"))
    assert pair.shared.blocked_for == "low on memory"
    pair.write(0, ConnectionUnblocked())
    assert pair.shared.blocked_for is None


def test_the_broker_may_close_the_connection() -> None:
    pair = Pair()
    close = ConnectionClose(541, "INTERNAL_ERROR", 50, 10)
    pair.write(0, close)
    assert pair.shared.closed == close
    assert methods_in(pair.broker.read(pair.shared.take_output(ALL))) == [(0, ConnectionCloseOk())]


def test_a_client_with_much_to_send_does_not_hold_up_others() -> None:
    pair, lanes = Pair(), [Lane(), Lane()]
    greedy, modest = (pair.take(lane=lane) for lane in lanes)
    for _ in range(1000):
        pair.shared.put(greedy, message(greedy, 1000))
    pair.shared.put(modest, message(modest))
    first = pair.shared.take_output(2 * QUANTUM)
    assert message(modest) in first


def test_what_is_urgent_comes_first() -> None:
    pair, lane = Pair(), Lane()
    number = pair.take(lane=lane)
    pair.shared.put(number, message(number))
    pair.shared.send_urgently(b"first")
    assert pair.shared.take_output(ALL).startswith(b"first")


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 3 * QUANTUM)), max_size=60))
def test_each_client_gets_its_share_and_everything_is_sent_in_order(sizes: list[tuple[int, int]]) -> None:
    pair, lanes = Pair(), [Lane() for _ in range(5)]
    numbers = [pair.take(lane=lane) for lane in lanes]
    wanted: dict[int, list[bytes]] = {number: [] for number in numbers}
    for index, size in sizes:
        data = message(numbers[index], size)
        wanted[numbers[index]].append(data)
        pair.shared.put(numbers[index], data)
    output = b""
    while pair.shared.has_output:
        output += pair.shared.take_output(QUANTUM)
    found: dict[int, bytes] = dict.fromkeys(numbers, b"")
    for frame in FrameReader(frame_max=0).feed(output):
        found[frame.channel] += frame.raw
    assert found == {number: b"".join(each) for number, each in wanted.items()}


@pytest.mark.parametrize("size", [QUANTUM // 2, 5 * QUANTUM])
def test_a_message_larger_than_a_turn_is_sent_whole(size: int) -> None:
    pair, lane = Pair(), Lane()
    number = pair.take(lane=lane)
    pair.shared.put(number, message(number, size))
    output = b""
    while pair.shared.has_output:
        output += pair.shared.take_output(1)
    assert output == message(number, size)
