"""Entries become files that Wireshark reads without complaint, and that are read back as what was shown."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.frame import BODY, HEARTBEAT_FRAME, METHOD, encode_frame, encode_method, every_frame
from amqproxy.amqp091.methods import (
    BY_INDEX,
    BasicAck,
    ConnectionStart,
)
from amqproxy.amqp091.transitions import CLIENT, SENDERS, SERVER
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import Decoded, DecodedProtocolHeader, SkippedBytes, StreamEnded
from amqproxy.capture.synthetic_tcp import MAX_GAP_BYTES
from amqproxy.export.packets import ExportedPackets
from amqproxy.recording.entry import Ended, Entry, Lost, Snapshot, Violation
from amqproxy.recording.recording_encoder import RecordingEncoder
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.trace.snapshot import ChannelSnapshot, ConnectionSnapshot
from tests.example_count import example_count
from tests.real.require import require
from tests.recording.shown_session import CONTENT, LEGS, NOW, START_OK, Session, connection, deliver, publish


def written(encoder: RecordingEncoder, entries: Iterator[Entry] | list[Entry], files: int = 1) -> list[bytes]:
    """The entries, in so many files."""
    entries = list(entries)
    share = -(-len(entries) // files)
    made = []
    for number in range(files):
        pieces = [encoder.begin(NOW)]
        for entry in entries[number * share : (number + 1) * share]:
            pieces += map(bytes, encoder.encode(entry))
        made.append(b"".join([*pieces, encoder.statistics(entries[-1].ts_ns)]))
    return made


def together(sessions: list[Iterator[Entry]]) -> list[Entry]:
    return sorted((entry for session in sessions for entry in session), key=lambda entry: entry.ts_ns)


def read_back(entries: list[Entry], leg: str) -> list[Decoded]:
    return list(read_decoded(io.BytesIO(written(RecordingEncoder(), entries)[0]), leg=leg))


def all_of(session: Session, reason: str) -> Iterator[Entry]:
    yield from session.opening()
    yield from session.talk()
    yield from session.closing(reason)


def flat(decoded: list[Decoded]) -> dict[str, list[object]]:
    """Return the frames of each connection, one by one."""
    found: dict[str, list[object]] = {}
    for each in decoded:
        shown = found.setdefault(each.connection, [])
        match each:
            case Amqp091DecodedFrames():
                shown += [(each.ts_ns, each.sender, frame.raw, each.note) for frame in each.frames]
            case DecodedProtocolHeader():
                shown.append((each.ts_ns, each.sender, each.data))
            case SkippedBytes():
                shown.append((each.sender, each.lost))
            case StreamEnded():
                shown.append(each.reason)
    return found


def expected(entries: list[Entry], leg: str) -> dict[str, list[object]]:
    """Return the expected traffic of one leg."""
    found: dict[str, list[object]] = {}
    for entry in entries:
        name = entry.connection.name if leg == "client" else entry.connection.upstream_name
        shown = found.setdefault(name, [])
        if isinstance(entry.event, Ended):
            shown.append(entry.event.reason)
        elif isinstance(entry.event, Lost):
            if entry.event.leg == leg:
                shown.append((entry.sender, entry.event.size))
        elif entry.note.leg not in ("", leg):
            continue
        elif entry.data.startswith(b"AMQP"):
            shown.append((entry.ts_ns, entry.sender, entry.data))
        else:
            data = entry.data.replace(b"secret", b"******")
            shown += [(entry.ts_ns, entry.sender, frame.raw, entry.note) for frame in every_frame(data, 0)]
    return found


@pytest.mark.parametrize("files", [1, 7])
@pytest.mark.parametrize("leg", LEGS)
def test_a_recording_is_read_as_what_was_shown(leg: str, files: int, tmp_path: Path) -> None:
    """Also when it goes on in other files."""
    sessions = [all_of(Session(connection(number), NOW + number), "client closed") for number in range(1, 4)]
    entries = together(sessions)
    for number, data in enumerate(written(RecordingEncoder(), entries, files)):
        (tmp_path / f"{number}.pcapng").write_bytes(data)
        assert b"secret" not in data
    assert flat(list(read_decoded(tmp_path, leg=leg))) == expected(entries, leg)


def test_each_file_can_be_read_on_its_own() -> None:
    """From wherever it begins, all frames are read, with who has sent them, at their times and with their notes."""
    for start in range(8, 212, 25):
        session = Session(connection())
        entries = list(all_of(session, "server closed"))
        encoder = RecordingEncoder()
        written(encoder, entries[:start])
        (data,) = written(encoder, entries[start:])
        for leg in LEGS:
            assert flat(list(read_decoded(io.BytesIO(data), leg=leg))) == expected(entries[start:], leg)


def test_comments_have_the_names_of_connections() -> None:
    entries = list(all_of(Session(connection()), "client closed"))
    first, second = written(RecordingEncoder(), entries, 2)
    assert b"amqproxy: session 1, client leg 10.0.0.1:40001-10.0.0.2:5673" in first
    assert first.count(b'amqproxy: connection name "orders"') == 2
    assert b'amqproxy: session 1 "orders", client leg 10.0.0.1:40001-10.0.0.2:5673\0' in second
    upstream = b'session 1 "orders", upstream leg [fd00::1]:50001-[fd00::2]:5672, for 10.0.0.1:40001-10.0.0.2:5673'
    assert upstream in second


def test_a_session_that_was_joined_begins_without_a_handshake() -> None:
    session = Session(connection(is_joined=True))
    entries = [session.shown(SERVER, deliver(1, 5)), session.shown(CLIENT, encode_method(1, BasicAck(1)))]
    (data,) = written(RecordingEncoder("client"), entries)
    (found,) = flat(list(read_decoded(io.BytesIO(data)))).values()
    assert [each[1] for each in found if isinstance(each, tuple)] == ["server", "server", "server", "client"]


def test_what_was_lost_is_shown_where_it_was() -> None:
    session = Session(connection())
    entries = [
        *session.opening(),
        session.shown(CLIENT, publish("before", 30)),
        session.shown(CLIENT, event=Lost("client", 5, 1234)),
        session.shown(CLIENT, publish("between", 30)),
        session.shown(SERVER, event=Lost("client", 1, 21)),
        session.shown(SERVER, encode_frame(BODY, 1, b"no method, and no header before it")),
        session.shown(CLIENT, event=Lost("client", 2, 2**33)),
        session.shown(CLIENT, publish("after", 30)),
        session.shown(CLIENT, event=Lost("client", 3, 99)),
        session.shown(CLIENT, event=Ended("client reset by the peer")),
    ]
    (data,) = written(RecordingEncoder(), entries)
    wanted = expected(entries, "client")
    name = entries[0].connection.name
    wanted[name] = [("client", MAX_GAP_BYTES) if each == ("client", 2**33) else each for each in wanted[name]]
    assert flat(list(read_decoded(io.BytesIO(data)))) == wanted
    assert b"5 frames before this not recorded, 1234 bytes" in data


def test_what_could_not_be_written_is_missing_from_what_comes_next() -> None:
    session = Session(connection())
    entries = list(session.opening())
    encoder = RecordingEncoder()
    (data,) = written(encoder, entries)
    encoder.lose(session.shown(CLIENT, publish("gone", 30)))
    encoder.lose(session.shown(CLIENT, event=Lost("client", 3, 1000)))
    after = session.shown(CLIENT, publish("after", 30))
    more = b"".join(map(bytes, encoder.encode(after)))
    lost = Lost("client", 6, 1000 + len(publish("gone", 30)))
    wanted = expected([*entries, session.shown(CLIENT, event=lost), after], "client")
    (found,) = flat(list(read_decoded(io.BytesIO(data + more)))).values()
    assert found[:-1] == next(iter(wanted.values()))


def test_of_bodies_no_more_is_kept_than_is_wanted() -> None:
    session = Session(connection())
    entries = list(all_of(session, "client closed"))
    (data,) = written(RecordingEncoder("client", 10), entries)
    (whole,) = written(RecordingEncoder("client"), entries)
    assert len(data) < len(whole) / 3
    sizes = [
        [
            frame.size
            for each in read_decoded(io.BytesIO(of))
            if isinstance(each, Amqp091DecodedFrames)
            for frame in each.frames
        ]
        for of in (data, whole)
    ]
    assert sizes[0] == sizes[1]


def test_what_a_peer_did_wrong_is_recorded_without_its_secrets() -> None:
    session = Session(connection())
    entries = [
        *list(session.opening())[:3],
        session.shown(CLIENT, START_OK[:-1] + b"!", Note(leg="client"), Violation(501, "no")),
    ]
    entries.append(session.shown(CLIENT, event=Ended("the client broke the protocol")))
    (data,) = written(RecordingEncoder(), entries)
    assert b"secret" not in data
    assert b'amqproxy: violation by the client: 501 "no"' in data
    exported = ExportedPackets()
    again = exported.begin("") + b"".join(exported.write(exported.see(read_decoded(io.BytesIO(data)))))
    for capture in (data, again):
        (skipped,) = (each for each in read_decoded(io.BytesIO(capture)) if isinstance(each, SkippedBytes))
        assert (skipped.sender, skipped.code, skipped.reason, len(skipped.data)) == ("client", 501, "no", len(START_OK))


STATE = ConnectionSnapshot(ts_ns=NOW, protocol="0-9-1", channels=(ChannelSnapshot(number=1, mode="confirm"),))


def snapshots_in(data: bytes, leg: str = "client") -> list[ConnectionSnapshot | None]:
    """The snapshot before the frames of each packet."""
    return [each.snapshot for each in read_decoded(io.BytesIO(data), leg=leg) if isinstance(each, Amqp091DecodedFrames)]


@pytest.mark.parametrize("is_joined", [False, True])
def test_a_snapshot_is_read_before_the_frames_that_follow_it(is_joined: bool) -> None:
    session = Session(connection(is_joined=is_joined))
    entries = [
        session.shown(CLIENT, publish("before", 9)),
        session.shown(CLIENT, STATE.to_bytes(), Note(leg="client"), Snapshot("client")),
        session.shown(SERVER, deliver(1, 200_000)),
        session.shown(CLIENT, publish("after", 9)),
    ]
    (data,) = written(RecordingEncoder(), entries)
    with_state = [each for each in snapshots_in(data) if each is not None]
    assert with_state == [STATE]
    assert snapshots_in(data)[1] == STATE  # the first frames of the delivery
    assert not any(snapshots_in(data, "upstream"))
    (found,) = flat(list(read_decoded(io.BytesIO(data)))).values()
    (wanted,) = expected([entry for entry in entries if entry.event is None], "client").values()
    assert found == [*wanted, "the capture ends"]


def test_a_snapshot_of_before_a_loss_is_left_out() -> None:
    session = Session(connection(is_joined=True))
    state = session.shown(CLIENT, STATE.to_bytes(), Note(leg="client"), Snapshot("client"))
    lost = session.shown(CLIENT, event=Lost("client", 1, 30))
    after = session.shown(CLIENT, publish("after", 9))
    assert not any(snapshots_in(written(RecordingEncoder(), [state, lost, after])[0]))
    assert snapshots_in(written(RecordingEncoder(), [lost, state, after])[0]) == [STATE]


def test_a_snapshot_goes_into_the_file_of_the_next_frames() -> None:
    session = Session(connection())
    entries = [*session.opening(), session.shown(CLIENT, STATE.to_bytes(), Note(leg="client"), Snapshot("client"))]
    encoder = RecordingEncoder()
    (first,) = written(encoder, entries)
    (second,) = written(encoder, [session.shown(CLIENT, publish("after", 9))])
    assert not any(snapshots_in(first))
    assert snapshots_in(second) == [STATE]


def test_snapshots_are_not_counted_as_frames() -> None:
    session = Session(connection(is_joined=True))
    state = session.shown(CLIENT, STATE.to_bytes(), Note(leg="client"), Snapshot("client"))
    encoder = RecordingEncoder()
    assert not written(encoder, [state])[0].count(b"not recorded")
    encoder.lose(state)
    encoder.note_unwritten([state])
    assert b"not recorded" not in written(encoder, [session.shown(CLIENT, publish("after", 9))])[0]
    assert state.frames == 0


@pytest.mark.real
def test_wireshark_does_not_show_snapshots(tmp_path: Path) -> None:
    session = Session(connection(is_joined=True))
    entries = []
    for entry in session.talk():
        entries += [session.shown(CLIENT, STATE.to_bytes(), Note(leg="client"), Snapshot("client")), entry]
    paths = [tmp_path / "with.pcapng", tmp_path / "without.pcapng"]
    paths[0].write_bytes(written(RecordingEncoder(), entries)[0])
    paths[1].write_bytes(written(RecordingEncoder(), [each for each in entries if each.event is None])[0])
    assert len([each for each in snapshots_in(paths[0].read_bytes()) if each]) > 100
    shown = [run(require("tshark"), "-r", path, "-T", "fields", "-e", "tcp.len", "-e", "tcp.seq") for path in paths]
    assert shown[0] == shown[1]
    assert experts(paths[0]) == experts(paths[1])
    counted = [run(require("capinfos"), "-M", "-c", path).split()[-1] for path in paths]
    assert counted[0] == counted[1] == str(len(shown[0].splitlines()))
    copy = tmp_path / "copy.pcapng"
    run(require("editcap"), paths[0], copy)
    assert snapshots_in(copy.read_bytes()) == snapshots_in(paths[0].read_bytes())


@st.composite
def shows(draw: st.DrawFn) -> tuple[list[Entry], int, str]:
    """Any frames, any notes, in any chunks, of two sessions; and in how many files."""
    names = st.lists(st.text(max_size=9), max_size=2).map(tuple)
    verdicts, legs = st.sampled_from(["", "changed", "refused"]), st.sampled_from(["", *LEGS])
    notes = st.builds(Note, names, names, verdicts, legs, st.just(False), st.just(()))
    frames = st.one_of(
        st.builds(publish, st.text(max_size=9), st.sampled_from([0, 1, 100, 70_000])),
        st.builds(deliver, st.integers(1, 9), st.sampled_from([0, 1, 5000])),
        st.just(HEARTBEAT_FRAME),
    )
    sessions = [Session(connection(number), NOW + number) for number in (1, 2)]
    entries = [entry for session in sessions for entry in session.opening()]
    ts_ns = max(session.ts_ns for session in sessions)
    for session in sessions:
        session.ts_ns = ts_ns
    for _ in range(draw(st.integers(0, 12))):
        session = draw(st.sampled_from(sessions))
        data = b"".join(draw(st.lists(frames, min_size=1, max_size=3)))
        entries.append(
            session.shown(draw(st.sampled_from([CLIENT, SERVER])), data, draw(st.one_of(st.just(NOTHING), notes)))
        )
    entries.sort(key=lambda entry: entry.ts_ns)
    entries += [each for session in sessions for each in session.closing("client closed")]
    return entries, draw(st.integers(1, 3)), draw(st.sampled_from(LEGS))


@settings(deadline=None, max_examples=example_count(60))
@given(shows())
def test_whatever_is_shown_is_read_back(shown: tuple[list[Entry], int, str]) -> None:
    entries, files, leg = shown
    data = written(RecordingEncoder(), entries, files)
    assert flat(list(read_decoded(io.BytesIO(b"".join(data)), leg=leg))) == expected(entries, leg)


# ---------------------------------------------------------------------------------------------------- Wireshark's view


def run(*command: str | Path) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    said = [line for line in done.stderr.splitlines() if 'Running as user "root"' not in line]
    assert not said, said
    return done.stdout


def experts(path: Path) -> list[str]:
    """Return Wireshark's expert messages about a file, without those about connection ends and our comments."""
    command = [require("tshark"), "-r", path, "-Y", "_ws.expert", "-T", "fields", "-E", "aggregator=|"]
    shown = run(*command, "-e", "_ws.expert.message")
    usual = ("Connection establish", "Connection finish", "Connection reset", "This frame ", "amqproxy: ")
    return [text for line in shown.splitlines() for text in line.split("|") if not text.strip().startswith(usual)]


@pytest.mark.real
def test_wireshark_has_no_complaint(tmp_path: Path) -> None:
    sessions = [all_of(Session(connection(1), NOW), "client closed")]
    sessions.append(all_of(Session(connection(2, upstream=""), NOW + 1), "server reset by the peer"))
    sessions.append(all_of(Session(connection(3, is_joined=True), NOW + 2), "the operator closed it"))
    entries = together(sessions)
    parts = written(RecordingEncoder(filter="true"), entries, 3)
    for number, data in enumerate([*parts, b"".join(parts)]):
        path = tmp_path / f"{number}.pcapng"
        path.write_bytes(data)
        assert not experts(path)
        about = run(require("capinfos"), path)
        assert "Name = client" in about
        assert "Name = upstream" in about
        assert "Strict time order:   True" in about


@pytest.mark.real
def test_sequence_numbers_begin_again_after_the_last(tmp_path: Path) -> None:
    """In the middle of a content, on both legs."""
    before = 300_000
    start_ns = (((NOW // 4096 >> 32) + 1 << 32) - before) * 4096
    entries = list(all_of(Session(connection(), start_ns), "client closed"))
    assert sum(len(entry.data) for entry in entries if entry.sender is CLIENT) > 2 * before
    path = tmp_path / "wrapped.pcapng"
    path.write_bytes(written(RecordingEncoder(), entries)[0])
    assert not experts(path)
    for leg in LEGS:
        (found,) = flat(list(read_decoded(path, leg=leg))).values()
        moved = [entry._replace(ts_ns=entry.ts_ns - 2**20 * 4096) for entry in entries]  # where nothing wraps
        (usual,) = flat(read_back(moved, leg)).values()
        assert [each[1:] for each in found] == [each[1:] for each in usual]
        assert len(found) > 900


@pytest.mark.real
def test_wireshark_misses_what_was_lost_and_no_more(tmp_path: Path) -> None:
    session = Session(connection())
    entries = [*session.opening(), session.shown(CLIENT, event=Lost("client", 5, 1234)), *session.talk()]
    path = tmp_path / "lost.pcapng"
    path.write_bytes(written(RecordingEncoder("client"), [*entries, *session.closing("client closed")])[0])
    assert {text.partition("(")[0].strip() for text in experts(path)} == {
        "Previous segment",
        "ACKed segment that wasn't captured",
    }


def every_method(session: Session) -> Iterator[Entry]:
    """Each method from each peer that sends it, with a content where it has one."""
    for cls in BY_INDEX:
        if cls.class_id != ConnectionStart.class_id:
            for sender in SENDERS[cls.name]:
                method = encode_method(1, cls())
                yield session.shown(sender, method + (CONTENT if cls.carries_content else b""))
    for cls in BY_INDEX:
        if cls.class_id == ConnectionStart.class_id and not cls.name.startswith(
            ("connection.start", "connection.clos")
        ):
            for sender in SENDERS[cls.name]:
                yield session.shown(sender, encode_method(0, cls()))


@pytest.mark.real
def test_wireshark_sees_the_same_frames(tmp_path: Path) -> None:
    """Time, kind, channel, size and method of each, on both legs; of all methods."""
    sessions = [all_of(Session(connection(number), NOW + number), "client closed") for number in (1, 2)]
    other = Session(connection(3), NOW + 3)
    sessions.append(chain(other.opening(), every_method(other), other.closing("server closed")))
    path = tmp_path / "same.pcapng"
    path.write_bytes(written(RecordingEncoder(), together(sessions))[0])
    known = ("Unknown connection method 7", "Unknown basic method 20", "Message was not delivered")
    assert not [text for text in experts(path) if not text.startswith(known)]  # basic.return is noted as such
    numbers = ("amqp.type", "amqp.channel", "amqp.length")
    fields = ("frame.time_epoch", "tcp.srcport", "amqp.method.class", "amqp.method.method", *numbers)
    command = [require("tshark"), "-2", "-r", path, "-d", "tcp.port==5673,amqp", "-Y", "amqp.type", "-T", "fields"]
    for field in fields:
        command += ["-e", field]
    found = []
    for line in run(*command).splitlines():
        epoch, port, classes, methods, *columns = line.split("\t")
        named = zip(map(int, filter(None, classes.split(","))), map(int, filter(None, methods.split(","))), strict=True)
        for kind, channel, size in zip(*(map(int, column.split(",")) for column in columns), strict=True):
            found.append((epoch, int(port), kind, channel, size, next(named) if kind == METHOD else None))
    ours = []
    for each in read_decoded(path, leg="both"):
        if isinstance(each, Amqp091DecodedFrames):
            ends = [int(end.rpartition(":")[2]) for end in each.connection.split("-")]
            port = ends[0] if each.sender == "client" else ends[1]
            epoch = f"{each.ts_ns // 10**9}.{each.ts_ns % 10**9:09d}"
            for frame in each.frames:
                method = BY_INDEX[frame.index] if frame.kind == METHOD else None
                named_as = None if method is None else (method.class_id, method.method_id)
                ours.append((epoch, port, frame.kind, frame.channel, frame.size, named_as))
    assert found == ours
    assert {frame[-1] for frame in ours} == {None, *((cls.class_id, cls.method_id) for cls in BY_INDEX)}
