"""What is found of a client's frames behind one that was refused."""

import tracemalloc

import pytest

from amqproxy.amqp091.methods import ConnectionClose, ConnectionCloseOk
from amqproxy.broker.amqp091.closing_reader import ClosingReader
from tests.real import raw

UNKNOWN = raw.frame(4, 1, b"1234")
CLOSE_OK = raw.connection_close_ok()


@pytest.mark.parametrize("chunk", [1, 3, 1000])
def test_closing_methods_are_found_among_others(chunk: int) -> None:
    data = UNKNOWN + raw.channel_open(5) + raw.connection_close() + raw.frame(8, 0) + raw.method(0, 99, 9) + CLOSE_OK
    data += CLOSE_OK.replace(b"\1\0\0", b"\1\0\1", 1)  # on a channel where it means nothing
    reader = ClosingReader(4096)
    frames = [frame for start in range(0, len(data), chunk) for frame in reader.feed(data[start : start + chunk])]
    assert [type(frame.method) for frame in frames] == [ConnectionClose, ConnectionCloseOk]
    assert not reader.is_lost


@pytest.mark.parametrize("lost", [raw.frame(1, 1, b"abcd", end=b"\0"), raw.frame(3, 1, bytes(4097)), b"\x09" * 20])
def test_nothing_is_found_behind_a_frame_without_bounds(lost: bytes) -> None:
    reader = ClosingReader(4096)
    assert reader.feed(lost + CLOSE_OK) == []
    assert reader.is_lost
    assert reader.feed(CLOSE_OK) == []


@pytest.mark.parametrize("chunk", [1, 7, 10, 11, 12])
@pytest.mark.parametrize(
    "lost", [raw.frame(1, 1, b"abcd", end=b"\0"), CLOSE_OK[:-1] + b"\0", raw.frame(3, 1, bytes(4097))]
)
def test_a_frame_without_bounds_is_noticed_in_pieces(lost: bytes, chunk: int) -> None:
    reader = ClosingReader(4096)
    data = lost + CLOSE_OK
    assert not [frame for start in range(0, len(data), chunk) for frame in reader.feed(data[start : start + chunk])]
    assert reader.is_lost


def test_a_discarded_frame_is_counted_and_not_kept() -> None:
    """A frame of 16 MiB that comes byte by byte was copied at each byte."""
    size = 16 * 1024 * 1024
    reader = ClosingReader(size)
    reader.feed(raw.frame(4, 1, bytes(size))[:-3])
    tracemalloc.start()
    try:
        assert not reader.feed(b"\0")
        assert not reader.feed(b"\0")
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()
    assert [type(frame.method) for frame in reader.feed(raw.END + CLOSE_OK)] == [ConnectionCloseOk]
