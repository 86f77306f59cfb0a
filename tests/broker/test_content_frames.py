"""The octets of a content, put together from parts, are those that the codec would write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.frames import encode_frame, encode_method
from amqproxy.amqp091.methods import BasicDeliver
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.broker import content_frames

HEADER = ContentHeader(5, Properties(message_id="m")).encode()


def frames(channel: int, body: bytes, frame_max: int) -> bytes:
    """Header and body as the codec has them."""
    step = frame_max - 8 if frame_max else len(body) or 1
    pieces = [body[start : start + step] for start in range(0, len(body), step)]
    return encode_frame(2, channel, HEADER) + b"".join(encode_frame(3, channel, piece) for piece in pieces)


@pytest.mark.parametrize("frame_max", [0, 108, 131_072])
@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 200, 201, 1000])
def test_sizes(size: int, frame_max: int) -> None:
    body = bytes(range(250)) * 4
    body = body[:size]
    assert content_frames.content(7, HEADER, body, frame_max) == frames(7, body, frame_max)
    method = encode_method(7, BasicDeliver("tag", 9, True, "x", "k"))
    octets = content_frames.deliver(7, content_frames.short_string("tag"), 9, True, "x", "k", HEADER, body, frame_max)
    assert octets == method + frames(7, body, frame_max)


names = st.text(max_size=60)


@given(st.integers(1, 65_535), names, st.integers(1, 2**64 - 1), st.booleans(), names, names, st.binary(max_size=50))
def test_deliver(channel: int, tag: str, number: int, again: bool, exchange: str, key: str, body: bytes) -> None:
    octets = content_frames.deliver(
        channel, content_frames.short_string(tag), number, again, exchange, key, HEADER, body, 0
    )
    expected = encode_method(channel, BasicDeliver(tag, number, again, exchange, key)) + frames(channel, body, 0)
    assert octets == expected


def test_short_strings_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_frames, "MAX_SHORT_STRINGS", 3)
    monkeypatch.setattr(content_frames, "short_strings", {})
    for number in range(10):
        assert content_frames.short_string(str(number)) == b"\x01" + str(number).encode()
        assert len(content_frames.short_strings) <= 3
