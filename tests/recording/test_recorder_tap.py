"""What sessions show becomes entries, and what there is no room for is counted."""

import io

import msgspec
import pytest

from amqproxy.amqp010.controls import ConnectionStartOk
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp010.frame_reader import FrameReader as Amqp010FrameReader
from amqproxy.amqp010.wire import Map
from amqproxy.amqp091.errors import FrameError
from amqproxy.amqp091.frame import Frame, every_frame
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import SkippedBytes, StreamEnded
from amqproxy.capture.packet_snapshot import MAX_SNAPSHOT_BYTES
from amqproxy.recording.entry import Ended, Entry, FileEnd, Lost, Snapshot, Violation
from amqproxy.recording.entry_queue import ENTRY_COST, EntryQueue
from amqproxy.recording.recorder_tap import EVENTS_SHARE, RecorderTap
from amqproxy.recording.recording_encoder import RecordingEncoder
from amqproxy.taps.amqp010.chunk import Amqp010Chunk
from amqproxy.taps.amqp091.chunk import Amqp091Chunk
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.protocol_error import AnyProtocolError
from amqproxy.taps.trace.snapshot import ConnectionSnapshot, HandshakeSnapshot
from tests.taps.sessions import Session
from tests.transcripts.words import octets

HEADER = b"AMQP\0\0\x09\x01"


class Recorded:
    """A tap with its queue, and a session that it is shown."""

    def __init__(self, memory: int = 1_000_000) -> None:
        self.queue = EntryQueue(memory)
        self.dropped = 0
        self.wakes = 0
        self.tap = RecorderTap(self.queue, self._wake, self._drop, clock=lambda: 5)
        self.session = Session(upstream_name="p:3-b:4")

    def _wake(self, session: int, size: int) -> None:
        self.wakes += 1

    def _drop(self, frames: int) -> None:
        self.dropped += frames

    def entries(self) -> list[Entry]:
        taken = self.queue.take(1_000_000)
        self.queue.done(taken)
        return taken


def frames(text: str) -> list[Frame]:
    return every_frame(octets(text), 0)


def test_a_connection_from_its_beginning() -> None:
    recorded = Recorded()
    tap, session = recorded.tap, recorded.session
    tap.saw_protocol_header(session, HEADER)
    assert [entry.note.leg for entry in recorded.entries()] == ["client"]
    tap.saw_frames(session, SERVER, frames("heartbeat"))
    at_upstream, first = recorded.entries()
    assert (at_upstream.data, at_upstream.note.leg, at_upstream.sender) == (HEADER, "upstream", CLIENT)
    assert (first.data, first.note, first.sender, first.ts_ns) == (octets("heartbeat"), NOTHING, SERVER, 5)
    connection = first.connection
    assert connection is at_upstream.connection
    assert (connection.name, connection.upstream_name, connection.is_joined) == ("c:1-p:2", "p:3-b:4", False)
    tap.saw_end(session, "client closed")
    assert [entry.event for entry in recorded.entries()] == [Ended("client closed")]
    assert not tap.connections


def test_what_the_proxy_answers_itself_is_no_sign_of_an_upstream() -> None:
    recorded = Recorded()
    recorded.tap.saw_protocol_header(recorded.session, HEADER)
    recorded.tap.saw_frames(recorded.session, SERVER, frames("connection.close 320"), Note(leg="client"))
    assert [entry.note.leg for entry in recorded.entries()] == ["client", "client"]


def test_a_connection_that_was_open_before() -> None:
    recorded = Recorded()
    note = Note(rules=("a",), verdict="rewritten", leg="upstream")
    recorded.tap.saw_frames(recorded.session, CLIENT, Amqp091Chunk(octets("1: tx.commit, 1: tx.commit"), 0), note)
    (entry,) = recorded.entries()
    assert entry.connection.is_joined
    assert entry.note is note
    assert entry.data == octets("1: tx.commit, 1: tx.commit")


def test_a_violation_has_what_was_received() -> None:
    recorded = Recorded()
    error = FrameError("too large")
    error.received = b"\x01rubbish"
    recorded.tap.saw_violation(recorded.session, CLIENT, error)
    (entry,) = recorded.entries()
    assert entry.event == Violation(501, error.reply_text, 0)
    assert (entry.data, entry.note.leg) == (b"\x01rubbish", "client")


def test_what_there_is_no_room_for_is_counted_by_leg_and_sender() -> None:
    one = octets("1: tx.commit")
    recorded = Recorded(memory=ENTRY_COST + len(one))
    for _ in range(3):
        recorded.tap.saw_frames(recorded.session, CLIENT, frames("1: tx.commit"))
    recorded.tap.saw_frames(recorded.session, SERVER, frames("1: tx.commit-ok"), Note(leg="client"))
    assert recorded.dropped == 3
    assert len(recorded.entries()) == 1
    recorded.tap.saw_frames(recorded.session, SERVER, frames("heartbeat"))
    lost = [(entry.sender, entry.event) for entry in recorded.entries()]
    assert lost == [
        (CLIENT, Lost("client", 2, 2 * len(one))),
        (CLIENT, Lost("upstream", 2, 2 * len(one))),
        (SERVER, Lost("client", 1, len(octets("1: tx.commit-ok")))),
        (SERVER, None),
    ]


def test_an_end_is_recorded_however_full_it_is() -> None:
    recorded = Recorded(memory=1)
    recorded.tap.saw_frames(recorded.session, CLIENT, frames("1: tx.commit"))
    recorded.tap.saw_end(recorded.session, "client closed")
    assert [type(entry.event) for entry in recorded.entries()] == [Lost, Lost, Ended]


SNAPSHOT = ConnectionSnapshot(ts_ns=5, protocol="0-9-1", handshake=HandshakeSnapshot(user="guest"))


def test_a_snapshot_follows_what_was_lost_before_it() -> None:
    recorded = Recorded()
    recorded.tap.lose_frames(recorded.session, CLIENT, 2, 30, Note(leg="client"))
    recorded.tap.saw_snapshot(recorded.session, SNAPSHOT)
    recorded.tap.saw_frames(recorded.session, CLIENT, frames("1: tx.commit"))
    lost, state, after = recorded.entries()
    assert lost.event == Lost("client", 2, 30)
    assert (state.event, state.data, state.note.leg) == (Snapshot("client"), SNAPSHOT.to_bytes(), "client")
    assert (after.event, after.connection.is_joined) == (None, True)


def test_a_snapshot_without_room_is_left_out_and_not_counted() -> None:
    recorded = Recorded(memory=2 * ENTRY_COST)
    large = msgspec.structs.replace(SNAPSHOT, handshake=HandshakeSnapshot(user="u" * 2 * ENTRY_COST))
    recorded.tap.saw_snapshot(recorded.session, large)
    assert (recorded.entries(), recorded.dropped) == ([], 0)
    recorded.tap.saw_snapshot(recorded.session, SNAPSHOT)
    assert len(recorded.entries()) == 1


def test_a_snapshot_is_bounded() -> None:
    recorded = Recorded(memory=100 * MAX_SNAPSHOT_BYTES)
    large = msgspec.structs.replace(SNAPSHOT, handshake=HandshakeSnapshot(user="u" * MAX_SNAPSHOT_BYTES))
    recorded.tap.saw_snapshot(recorded.session, large)
    assert recorded.entries() == []


def test_the_tap_joins_again_with_each_file() -> None:
    recorded = Recorded()
    assert recorded.tap.joins == 1
    recorded.tap.end_file()
    assert recorded.tap.joins == 2
    [end] = recorded.queue.take(1000)
    assert isinstance(end.event, FileEnd)


def test_taken_entries_count_until_they_are_written() -> None:
    recorded = Recorded()
    recorded.tap.saw_frames(recorded.session, CLIENT, frames("1: tx.commit"))
    size = recorded.queue.size
    taken = recorded.queue.take(1)
    assert recorded.queue.size == size > 0
    recorded.queue.done(taken)
    assert recorded.queue.size == 0


def test_sessions_of_which_nothing_is_recorded_take_no_memory() -> None:
    recorded = Recorded(memory=10 * ENTRY_COST)
    for number in range(1000):
        session = Session(number=number)
        recorded.tap.saw_protocol_header(session, HEADER)
        recorded.tap.saw_end(session, "client closed")
    assert recorded.queue.size <= (EVENTS_SHARE * 10 + 5) * ENTRY_COST
    ended = [entry.connection for entry in recorded.entries() if isinstance(entry.event, Ended)]
    assert len(ended) == len(set(ended)) > 0
    assert recorded.dropped > 900


START_OK = encode_method(0, ConnectionStartOk(Map(), "PLAIN", b"\0me\0secret", "en_US"))


def refused(data: bytes) -> AnyProtocolError:
    reader = Amqp010FrameReader(frame_max=0)
    reader.feed(data)
    assert reader.error is not None
    reader.error.received = data
    return reader.error


@pytest.mark.parametrize("first", ["start-ok", "violation", "loss", "gap"])
def test_the_login_of_a_joined_0_10_session_is_masked_whatever_comes_first(first: str) -> None:
    recorded = Recorded()
    tap, session = recorded.tap, recorded.session
    if first == "violation":
        tap.saw_violation(session, CLIENT, refused(bytes([START_OK[0] | 0xF0]) + START_OK[1:]))
    elif first == "loss":
        tap.lose_frames(session, CLIENT, 1, 9, NOTHING)
    elif first == "gap":
        tap.saw_gap(session, 1)
    if first != "violation":
        tap.saw_frames(session, CLIENT, Amqp010Chunk(START_OK, 0, [None]))
    encoder = RecordingEncoder("client")
    data = encoder.begin(0) + b"".join(bytes(part) for each in recorded.entries() for part in encoder.encode(each))
    assert b"PLAIN" in data or first == "violation"
    assert b"secret" not in data


def test_losses_of_both_peers_come_before_the_state() -> None:
    recorded = Recorded()
    tap, session = recorded.tap, recorded.session
    tap.saw_frames(session, CLIENT, frames("1: tx.commit"))
    tap.saw_frames(session, SERVER, frames("1: tx.commit-ok"))
    for sender in (CLIENT, SERVER):
        tap.lose_frames(session, sender, 2, 30, NOTHING)
    tap.saw_snapshot(session, SNAPSHOT)
    tap.saw_frames(session, SERVER, frames("1: tx.commit-ok"))
    tap.saw_frames(session, CLIENT, frames("1: tx.commit"))
    encoder = RecordingEncoder("client")
    data = encoder.begin(0) + b"".join(bytes(part) for each in recorded.entries() for part in encoder.encode(each))
    *decoded, _ = read_decoded(io.BytesIO(data), leg="client")
    assert [(type(each), each.sender) for each in decoded if not isinstance(each, StreamEnded)] == [
        (Amqp091DecodedFrames, "client"),
        (Amqp091DecodedFrames, "server"),
        (SkippedBytes, "client"),
        (SkippedBytes, "server"),
        (Amqp091DecodedFrames, "server"),
        (Amqp091DecodedFrames, "client"),
    ]
    assert [each.snapshot for each in decoded if isinstance(each, Amqp091DecodedFrames)] == [None, None, SNAPSHOT, None]


@pytest.mark.parametrize("header", [HEADER, b""], ids=["from its beginning", "joined"])
def test_a_connection_that_sessions_share_is_on_the_upstream_leg_alone(header: bytes) -> None:
    recorded = Recorded()
    tap, leg = recorded.tap, recorded.session
    tap.saw_shared(leg, header)
    tap.saw_frames(leg, CLIENT, frames("5: channel.open"), Note(leg="upstream"))
    tap.saw_frames(leg, SERVER, frames("5: channel.open-ok"), Note(leg="upstream"))
    tap.saw_end(leg, "closed by the broker")
    assert not tap.connections
    encoder = RecordingEncoder()
    entries = recorded.entries()
    data = encoder.begin(0) + b"".join(b"".join(encoder.encode(entry)) for entry in entries)
    assert not list(read_decoded(io.BytesIO(data), leg="client"))
    *decoded, end = read_decoded(io.BytesIO(data), leg="upstream", by_session=True)
    methods = [frame.method.name for each in decoded if isinstance(each, Amqp091DecodedFrames) for frame in each.frames]
    assert methods == ["channel.open", "channel.open-ok"]
    assert isinstance(end, StreamEnded)
    assert {(each.stream, each.leg) for each in (*decoded, end)} == {(7, "upstream")}
    assert not any(getattr(each, "note", NOTHING).leg for each in decoded)
