"""Entries of one made-up session, for tests of what is made of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decode import read_decoded
from amqproxy.configuration.config import RecordConfig
from amqproxy.recording.entry import Entry, Event, RecordedConnection
from amqproxy.taps.note import NOTHING, Note
from tests.transcripts.words import octets

NOW = 1_795_283_220_123_456_789
SECOND = 1_000_000_000


def connection(number: int = 1, *, is_joined: bool = True) -> RecordedConnection:
    return RecordedConnection(
        number,
        f"10.0.0.{number}:4711-10.0.0.9:5673",
        is_tls=False,
        is_joined=is_joined,
        upstream_name=f"10.0.0.9:{6000 + number}-10.0.0.8:5672",
    )


def entry(
    text: str = "",
    sender: Peer = CLIENT,
    *,
    of: RecordedConnection | None = None,
    ts_ns: int = NOW,
    note: Note = NOTHING,
    event: Event | None = None,
) -> Entry:
    """Frames as transcripts have them."""
    return Entry(ts_ns, of or SESSION, sender, octets(text) if text else b"", note, event)


SESSION = connection()


def config(directory: Path, **given: Any) -> RecordConfig:
    return RecordConfig(directory=str(directory), **{"compress": False, **given})


def shown(files: Sequence[Path], leg: str = "client") -> list[str]:
    """The frames on a leg of recordings, in words."""
    found = []
    for file in files:
        for decoded in read_decoded(file, leg=leg):
            if isinstance(decoded, Amqp091DecodedFrames):
                found += [f"{decoded.sender} {frame.method.name}" for frame in decoded.frames if frame.kind == 1]
    return found
