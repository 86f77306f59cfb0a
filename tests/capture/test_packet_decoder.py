"""A proxy's packets, decoded as they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from amqproxy.capture.decoded import DecodedFrames
from amqproxy.capture.packet_decoder import PacketDecoder
from amqproxy.recording.entry import Entry
from amqproxy.recording.recording_encoder import RecordingEncoder
from tests.recording.shown_session import Session, connection


def pieces(entries: Iterable[Entry], size: int) -> Iterator[bytes]:
    """The packets of `size` entries at a time, as a proxy sends them."""
    encoder = RecordingEncoder()
    yield encoder.begin(0)
    waiting = iter(entries)
    while some := list(islice(waiting, size)):
        yield b"".join(bytes(each) for entry in some for each in encoder.encode(entry))


def test_connections_have_the_numbers_of_their_sessions_and_frames_come_once() -> None:
    decoder, frames = PacketDecoder(), dict[int, list[str]]()
    entries = [entry for number in (17, 5) for entry in Session(connection(number)).talk()]
    for piece in pieces(entries, 7):
        for each in decoder.feed(piece):
            if isinstance(each, DecodedFrames):
                frames.setdefault(each.stream, []).extend(each.note.leg for _ in each.frames)
    assert list(frames) == [17, 5]
    assert frames[17] == frames[5]
    assert frames[5].count("upstream") == frames[5].count("client") == 3  # of the publish that a rule has changed
