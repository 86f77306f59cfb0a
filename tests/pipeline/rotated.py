"""Recordings that are rotated between any two frames, made of captures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import DecodedProtocolHeader, StreamEnded
from amqproxy.pipeline.chains import chains, find
from amqproxy.recording.entry import Ended, Entry, RecordedConnection
from amqproxy.recording.recording_files import RecordingFiles
from amqproxy.taps.note import NOTHING
from tests.recording.recorded import config

FILE_AGE = 3600


def entries_of(path: Path) -> Iterator[Entry]:
    """What a session shows of the frames of a capture, one frame at a time."""
    sessions: dict[int, RecordedConnection] = {}
    for each in read_decoded(path):
        session = sessions.get(each.stream)
        if session is None:
            session = sessions[each.stream] = RecordedConnection(
                each.stream + 1, each.connection, is_tls=False, is_joined=False, upstream_name="127.0.0.1:4-127.0.0.1:5"
            )
        match each:
            case Amqp091DecodedFrames():
                for frame in each.frames:
                    yield Entry(each.ts_ns, session, Peer(each.sender), frame.raw, NOTHING)
            case DecodedProtocolHeader():
                yield Entry(each.ts_ns, session, Peer(each.sender), each.data, NOTHING)
            case StreamEnded():
                yield Entry(each.ts_ns, session, CLIENT, b"", NOTHING, Ended(each.reason))


def recorded(directory: Path, entries: list[Entry], *, is_rotated: bool) -> list[str]:
    """The files of a recording, another one after each entry if it is rotated."""
    now = [0]

    def clock() -> int:
        return now[0]

    directory.mkdir()
    files = RecordingFiles(config(directory, file_age=FILE_AGE), clock, clock)
    now[0] = entries[0].ts_ns
    files.open()
    for entry in entries:
        files.write([entry])
        if is_rotated:
            now[0] += FILE_AGE * 1_000_000_000
            files.tick()
    files.close()
    (chain,) = chains(find(directory))
    assert chain.is_recording
    return list(chain.files)
