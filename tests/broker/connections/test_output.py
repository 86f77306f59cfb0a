"""What is written for a client is what the codec would write, and comes out in its order, once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.frame import encode_frame, encode_method
from amqproxy.amqp091.methods import BasicDeliver
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.broker.connections import output
from amqproxy.broker.connections.output import HIGH_WATER, LARGE, PIECE, SHARE, OutputBuffer, short_string
from amqproxy.broker.unsent_bytes import UnsentBytes

HEADER = ContentHeader(5, Properties(message_id="m")).encode()


def made(frame_max: int = 0) -> OutputBuffer:
    return OutputBuffer(frame_max, lambda: None)


def frames(channel: int, body: bytes, frame_max: int) -> bytes:
    """Header and body as the codec has them."""
    step = frame_max - 8 if frame_max else len(body) or 1
    pieces = [body[start : start + step] for start in range(0, len(body), step)]
    return encode_frame(2, channel, HEADER) + b"".join(encode_frame(3, channel, piece) for piece in pieces)


@pytest.mark.parametrize("frame_max", [0, 108, 131_072])
@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 200, 201, 1000])
def test_sizes(size: int, frame_max: int) -> None:
    body = (bytes(range(250)) * 4)[:size]
    out = made(frame_max)
    out.content(7, HEADER, body)
    assert out.take_bytes() == frames(7, body, frame_max)
    out.deliver(7, short_string("tag"), 9, True, "x", "k", HEADER, body)
    method = encode_method(7, BasicDeliver("tag", 9, True, "x", "k"))
    assert out.take_bytes() == method + frames(7, body, frame_max)


names = st.text(max_size=60)


@given(st.integers(1, 65_535), names, st.integers(1, 2**64 - 1), st.booleans(), names, names, st.binary(max_size=50))
def test_deliver(channel: int, tag: str, number: int, again: bool, exchange: str, key: str, body: bytes) -> None:
    out = made()
    out.deliver(channel, short_string(tag), number, again, exchange, key, HEADER, body)
    expected = encode_method(channel, BasicDeliver(tag, number, again, exchange, key)) + frames(channel, body, 0)
    assert out.take_bytes() == expected


sizes = st.sampled_from([0, 1, 7, 300, LARGE - 1, LARGE, LARGE + 1, PIECE + 1])


@given(st.lists(st.tuples(st.booleans(), sizes), max_size=12), st.sampled_from([0, LARGE, 131_072]))
def test_order(steps: list[tuple[bool, int]], frame_max: int) -> None:
    """Whatever is large or small, and wherever it is taken: it comes in its order, and is counted until it is sent."""
    out, expected, taken = made(frame_max), b"", b""
    for number, (is_content, size) in enumerate(steps):
        data = bytes([number]) * size
        if is_content:
            out.content(1, HEADER, data)
            expected += frames(1, data, frame_max)
        else:
            out.put(data)
            expected += data
        assert out.waiting == len(expected) - len(taken)
        if number % 3 == 2:
            taken += out.take_bytes()
            out.sent()
    assert taken + b"".join(out.take_pieces()) == expected
    assert out.take_bytes() == b""


def test_what_is_large_is_not_copied() -> None:
    out = made()
    body = bytes(LARGE)
    out.put(b"before")
    out.content(1, HEADER, body)
    assert any(piece is body for piece in out.take_pieces())


def test_wakes_when_there_is_something_to_take_again() -> None:
    calls: list[int] = []
    out = OutputBuffer(0, lambda: calls.append(out.waiting))
    out.put(b"one")
    out.put(b"two")
    assert calls == [3]
    out.take_bytes()
    out.put(b"three")  # while what was taken is on its way
    out.sent()
    out.put(b"four")
    assert calls == [3, 11]
    assert out.take_bytes() == b"threefour"


def test_room() -> None:
    out = made()
    out.put(bytes(HIGH_WATER))
    assert out.has_room
    out.put(b"1")
    assert (out.has_room, out.waiting) == (False, HIGH_WATER + 1)
    out.take_bytes()
    out.put(b"2")
    assert not out.has_room, "sent was not called yet"
    assert out.sent()
    assert (out.has_room, out.waiting) == (True, 1)
    assert not out.sent(), "there was room before"


def test_short_strings_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "MAX_SHORT_STRINGS", 3)
    monkeypatch.setattr(output, "short_strings", {})
    for number in range(10):
        assert output.short_string(str(number)) == b"\x01" + str(number).encode()
        assert len(output.short_strings) <= 3


def test_all_clients_share_what_may_wait_for_them_together() -> None:
    """Who has little waiting goes on, whatever the others have; who has more goes on once that is sent."""
    waiting = UnsentBytes(4 * SHARE)
    one, two, three = (OutputBuffer(0, lambda: None, waiting) for _ in range(3))
    one.put(bytes(3 * SHARE))
    assert (one.has_room, waiting.count) == (True, 3 * SHARE)
    two.put(bytes(2 * SHARE))
    three.put(bytes(SHARE))
    assert [each.has_room for each in (one, two, three)] == [True, False, True]
    assert [each.is_over(HIGH_WATER) for each in (one, two, three)] == [True, True, False]
    one.put(b"x")
    assert not one.has_room
    for each in (one, two):
        each.take_bytes()
        assert each.sent()
    assert waiting.count == SHARE
    assert not one.is_over(HIGH_WATER)
    three.close()
    assert waiting.count == 0


def test_a_closed_buffer_wakes_no_task() -> None:
    woken: list[int] = []
    out = OutputBuffer(0, lambda: woken.append(1))
    out.close()
    out.put(b"x")
    assert woken == []
