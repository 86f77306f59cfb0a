"""Each protocol's frames are counted as its own, also where they are lost."""

import pytest

from amqproxy.amqp010.controls import SessionAttach, SessionDetach
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.recording.dialects import dialect_of
from amqproxy.recording.entry import Entry, RecordedConnection
from amqproxy.recording.entry_queue import EntryQueue
from amqproxy.recording.writing_thread import WritingThread
from amqproxy.taps.note import NOTHING
from tests.transcripts.words import octets

AMQP010_FRAMES = encode_method(0, SessionAttach(b"a")) + encode_method(0, SessionDetach(b"a"))


@pytest.mark.parametrize(
    ("protocol", "data", "count"),
    [
        ("0-9-1", octets("1: tx.commit, 1: tx.commit"), 2),
        ("0-9-1", b"AMQP", 1),
        ("0-10", AMQP010_FRAMES, 2),
        ("0-10", HEADER + AMQP010_FRAMES, 3),
        ("0-10", b"", 0),
        (None, b"", 0),
        ("lines", b"x", 1),
    ],
)
def test_frames_of_an_entry(protocol: str | None, data: bytes, count: int) -> None:
    assert _entry(protocol, data).frames == count


class _BrokenWriter:
    def open(self) -> None:
        pass

    def write(self, entries: list[Entry]) -> None:
        raise ValueError("broken")

    def tick(self) -> None:
        pass

    close = tick


def test_lost_frames_are_counted_by_their_protocol() -> None:
    queue, lost = EntryQueue(1 << 20), list[int]()
    queue.add(_entry("0-10", AMQP010_FRAMES))
    thread = WritingThread(
        queue,
        _BrokenWriter(),
        opened=lambda failure: None,
        ended=lambda: None,
        drained=lambda: None,
        count_lost=lost.append,
    )
    thread.start()
    thread.stop()
    thread._thread.join()
    assert lost == [2]


def _entry(protocol: str | None, data: bytes) -> Entry:
    connection = RecordedConnection(1, "", is_tls=False, is_joined=False, dialect=dialect_of(protocol))
    return Entry(1, connection, CLIENT, data, NOTHING)
