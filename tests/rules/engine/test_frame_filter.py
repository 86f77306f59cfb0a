"""What a filter lets by of a connection."""

import pytest

from amqproxy.amqp091.frame import BODY, Frame, encode_frame, every_frame
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.rules.context import Client
from amqproxy.rules.engine.frame_filter import FrameFilter
from amqproxy.rules.matching.filters import Filter
from tests.transcripts.lines import parse


def sifted(expression: str, transcript: str) -> list[str]:
    """The lines whose frames are let by, each where its message has come far enough."""
    sieve = FrameFilter(Filter(expression), Client(session=1))
    sent = parse(transcript)
    texts = {}
    passed = []
    for line in sent:
        (frame,) = every_frame(line.data, 0)
        texts[id(frame)] = (frame, line.text)
        passed += sieve.sift(line.peer, [frame], 0.0)
    return [texts[id(frame)][1] for frame in passed]


MESSAGES = """
    >> 1 queue.declare queue=q
    >> 1 basic.publish routing_key=a
    >> 1 header 3
    >> 2 basic.publish routing_key=b
    >> 1 body abc
    >> 2 header 0
    >> heartbeat
"""


def test_by_the_method():
    assert sifted("routing_key == 'a'", MESSAGES) == ["1 basic.publish routing_key=a", "1 header 3", "1 body abc"]
    assert sifted("method == 'queue.declare'", MESSAGES) == ["1 queue.declare queue=q"]
    assert sifted("method == 'heartbeat'", MESSAGES) == ["heartbeat"]


def test_by_the_header():
    assert sifted("size == 0", MESSAGES) == ["2 basic.publish routing_key=b", "2 header 0"]


def test_by_the_body():
    assert sifted("body == 'abc'", MESSAGES) == ["1 basic.publish routing_key=a", "1 header 3", "1 body abc"]


def test_by_who_the_client_is():
    login = r">> connection.start-ok response='" + "\0guest\0guest'"
    sieve = FrameFilter(Filter("user == 'guest'"), Client(session=1))
    (line,) = parse(login)
    (frame,) = every_frame(line.data, 0)
    assert sieve.sift(CLIENT, [frame], 0.0) == [frame]


class CountedRoom:
    """Has room for so many bytes, and counts what is asked of it."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.most = 0

    def has_room(self, size: int) -> bool:
        return self.used + size <= self.limit

    def add(self, size: int) -> None:
        self.used += size
        self.most = max(self.most, self.used)

    def remove(self, size: int) -> None:
        self.used -= size


def published(size: int) -> list[Frame]:
    """A publish up to its header."""
    lines = parse(f">> 1 basic.publish routing_key=a\n>> 1 header {size}")
    return [frame for line in lines for frame in every_frame(line.data, 0)]


class _CountedFrame:
    """Stands for a body frame, and counts how often it is looked at."""

    looks = 0

    def __init__(self, payload: bytes) -> None:
        self._frame = Frame(encode_frame(BODY, 1, payload))

    def __getattr__(self, name: str) -> object:
        _CountedFrame.looks += 1
        return getattr(self._frame, name)


@pytest.mark.parametrize("payload", [b"", b"x"])
def test_each_frame_of_a_message_is_looked_at_so_many_times_only(payload: bytes) -> None:
    looks = []
    for count in (100, 1000):
        _CountedFrame.looks = 0
        sieve = FrameFilter(Filter("body == 'abc'"), Client(session=1))
        sieve.sift(CLIENT, published(2000), 0.0)
        for _ in range(count):
            assert sieve.sift(CLIENT, [_CountedFrame(payload)], 0.0) == []  # type: ignore[list-item]
        looks.append(_CountedFrame.looks)
    assert looks[1] == 10 * looks[0]


def test_a_message_for_which_there_is_no_room_is_let_by() -> None:
    room = CountedRoom(10_000)
    sieve = FrameFilter(Filter("body == 'abc'"), Client(session=1), room)
    body = Frame(encode_frame(BODY, 1, bytes(1000)))
    sent = [*published(100_000), *[body] * 100]
    passed = [frame for frame in sent for frame in sieve.sift(CLIENT, [frame], 0.0)]
    assert passed == sent
    assert 5000 < room.most <= 10_000
    assert room.used == 0


def test_what_is_cut_short_is_kept_no_longer() -> None:
    room = CountedRoom(10_000)
    sieve = FrameFilter(Filter("body == 'abc'"), Client(session=1), room)
    sieve.sift(CLIENT, published(5), 0.0)
    assert room.used > 0
    sieve.sift(CLIENT, published(5)[:1], 0.0)
    assert 0 < room.used < 500
    (close,) = parse(">> 1 channel.close reply_code=200")
    sieve.sift(CLIENT, every_frame(close.data, 0), 0.0)
    assert room.used == 0


def test_a_message_without_room_for_its_method_is_let_by() -> None:
    sieve = FrameFilter(Filter("body == 'abc'"), Client(session=1), CountedRoom(0))
    sent = [*published(3), Frame(encode_frame(BODY, 1, b"xyz"))]
    assert sieve.sift(CLIENT, sent, 0.0) == sent


def test_a_body_too_large_to_be_looked_into_is_let_by() -> None:
    sieve = FrameFilter(Filter("body == 'abc'"), Client(session=1), body_limit=2)
    sent = [*published(3), Frame(encode_frame(BODY, 1, b"xyz"))]
    assert sieve.sift(CLIENT, sent, 0.0) == sent
