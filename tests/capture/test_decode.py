"""From a capture file to records."""

import contextlib
import io
import json
import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import encode_frame, encode_method
from amqproxy.amqp091.methods import BasicPublish, ChannelOpen, ConnectionTune, ConnectionTuneOk
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decode import MAX_COMMENTS, Decoder, read_decoded
from amqproxy.capture.decoded import Decoded, DecodedFrames, StreamEnded, records_of
from amqproxy.capture.endpoints import Endpoint
from amqproxy.capture.files import read_packets
from amqproxy.capture.observed import observed
from amqproxy.capture.packets import Dissector, TCPSegment
from amqproxy.capture.reassembly import Reassembler
from amqproxy.capture.stream_events import Data, Opened
from amqproxy.capture.warnings import CaptureError, CaptureWarning, WarningKind
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.note import Note
from amqproxy.taps.observer import ObserverSettings
from amqproxy.taps.record import Record
from amqproxy.taps.text import line
from tests.amqp010 import recorded as amqp010
from tests.capture import building, golden
from tests.capture.building import ACK, CLIENT6, FIN, RST, SERVER6, SYN
from tests.capture.records import read_records

TUNE = encode_method(0, ConnectionTune(2047, 131072, 60))
TUNE_OK = encode_method(0, ConnectionTuneOk(2047, 131072, 60))
OPEN = encode_method(1, ChannelOpen())


def publish(number: int) -> bytes:
    return Command(1, BasicPublish(exchange="e", routing_key=f"k.{number}"), body=b"x" * (number % 50)).encode(0)


PUBLISHED = [publish(number) for number in range(40)]


def conversation(client_port: int = 40000, segment: int = 100) -> list[bytes]:
    """The packets of a short connection over Ethernet and IPv4."""
    client_data = HEADER + TUNE_OK + OPEN + b"".join(PUBLISHED)
    packets = []

    def send(is_client: bool, payload: bytes, seq: int, ack: int, flags: int = ACK) -> None:
        ports = (client_port, 5672) if is_client else (5672, client_port)
        ends = (building.CLIENT, building.SERVER) if is_client else (building.SERVER, building.CLIENT)
        body = building.tcp(payload, source=ports[0], target=ports[1], seq=seq, ack=ack, flags=flags)
        packets.append(building.ethernet(building.ipv4(body, source=ends[0], target=ends[1])))

    send(True, b"", 999, 0, SYN)
    send(False, b"", 4999, 1000, SYN | ACK)
    send(True, client_data[:8], 1000, 5000)
    send(False, TUNE, 5000, 1008)
    for at in range(8, len(client_data), segment):
        send(True, client_data[at : at + segment], 1000 + at, 5000 + len(TUNE))
    send(True, b"", 1000 + len(client_data), 5000 + len(TUNE), FIN | ACK)
    send(False, b"", 5000 + len(TUNE), 1001 + len(client_data), FIN | ACK)
    return packets


def read(packets: list[bytes]) -> tuple[list[Record], list[CaptureWarning]]:
    notices: list[CaptureWarning] = []
    file = building.pcap([(index * 1000, packet) for index, packet in enumerate(packets)])
    return list(read_records(io.BytesIO(file), notices.append)), notices


def test_a_conversation() -> None:
    records, notices = read(conversation())
    assert not notices
    assert [record.method for record in records[:5]] == [
        None,
        "connection.tune",
        "connection.tune-ok",
        "channel.open",
        "basic.publish",
    ]
    assert {record.connection for record in records} == {"10.0.0.1:40000-10.0.0.2:5672"}
    assert [record.sender for record in records[:3]] == ["client", "server", "client"]
    keys = [
        record.arguments["routing_key"] for record in records if record.arguments and record.method == "basic.publish"
    ]
    assert keys == [f"k.{number}" for number in range(40)]
    assert [record.ts_ns for record in records] == sorted(record.ts_ns for record in records)


def test_ipv6_is_in_brackets() -> None:
    body = building.tcp(HEADER, seq=1000)
    packet = building.ethernet(building.ipv6(body, source=CLIENT6, target=SERVER6), 0x86DD)
    assert read([packet])[0][0].connection == "[fd00::1]:40000-[fd00::2]:5672"


def test_frames_come_with_their_bytes() -> None:
    file = building.pcap([(0, packet) for packet in conversation()])
    data = b"".join(
        frame.raw
        for passed in read_decoded(io.BytesIO(file))
        if isinstance(passed, Amqp091DecodedFrames) and passed.sender == "client"
        for frame in passed.frames
    )
    assert data == TUNE_OK + OPEN + b"".join(PUBLISHED)


def test_streams_without_amqp_are_counted() -> None:
    others = []
    for port in range(5):
        for source, target, payload in ((50000 + port, 80, b"GET / HTTP/1.1\r\n"), (80, 50000 + port, b"HTTP/1.1 200")):
            syn = building.tcp(source=source, target=target, seq=0, flags=SYN | (ACK if source == 80 else 0))
            body = building.tcp(payload, source=source, target=target, seq=1)
            ends = (building.CLIENT, building.SERVER) if target == 80 else (building.SERVER, building.CLIENT)
            others += [building.ethernet(building.ipv4(each, source=ends[0], target=ends[1])) for each in (syn, body)]
    records, notices = read([*others, *conversation()])
    assert {record.stream for record in records} == {5}
    assert [notice.kind for notice in notices] == [WarningKind.IGNORED]
    assert "5 TCP streams" in str(notices[0])


def test_a_file_cut_short_gives_what_it_has() -> None:
    file = building.pcap([(0, packet) for packet in conversation()])
    notices: list[CaptureWarning] = []
    records = list(read_records(io.BytesIO(file[: len(file) // 2]), notices.append))
    assert records
    assert [notice.kind for notice in notices] == [WarningKind.CUT_SHORT]


def test_an_error_comes_after_the_records_before_it() -> None:
    file = building.pcap([(0, packet) for packet in conversation()]) + b"\xff" * 16
    records = read_records(io.BytesIO(file))
    assert next(records).type == "protocol-header"
    with pytest.raises(CaptureError, match="bytes"):
        list(records)


@given(st.randoms(use_true_random=False), st.integers(20, 400))
def test_packets_in_another_order_decode_to_the_same_frames(randomness: random.Random, segment: int) -> None:
    """Within a window, as networks and cards do it: everything arrives, some of it late, some of it twice."""
    packets = conversation(segment=segment)
    handshake, rest, closing = packets[:4], packets[4:-2], packets[-2:]
    keyed = [(index + randomness.uniform(0, 6), packet) for index, packet in enumerate(rest)]
    keyed += [
        (index + randomness.uniform(0, 6), packet) for index, packet in enumerate(rest) if randomness.random() < 0.2
    ]
    shuffled = [packet for _, packet in sorted(keyed, key=lambda each: each[0])]
    expected = [(record.type, record.method, record.arguments) for record in read(packets)[0]]
    found = [(record.type, record.method, record.arguments) for record in read([*handshake, *shuffled, *closing])[0]]
    assert found == expected


@given(st.randoms(use_true_random=False), st.integers(20, 400))
def test_what_is_lost_costs_whole_frames_and_is_counted(randomness: random.Random, segment: int) -> None:
    packets = conversation(segment=segment)
    kept = [packet for index, packet in enumerate(packets) if index < 4 or randomness.random() > 0.1]
    whole = [record for record in read(packets)[0] if record.sender == "client"]
    found = [record for record in read(kept)[0] if record.sender == "client"]
    known = {str((record.type, record.channel, record.method, record.arguments, record.size)) for record in whole}
    size = 0
    for record in found:
        if record.type == "error":
            assert record.code is None
            assert record.lost
            size += record.lost
        else:
            assert str((record.type, record.channel, record.method, record.arguments, record.size)) in known
            size += (record.size or 0) + (0 if record.type == "protocol-header" else 8)
    total = sum((record.size or 0) + (0 if record.type == "protocol-header" else 8) for record in whole)
    # What is lost at the very end was never there to be missed, unless a FIN or the answer to it shows it.
    assert size <= total
    if kept[-1] == packets[-1] or kept[-1] == packets[-2]:
        assert size == total


@given(st.binary(max_size=400), st.booleans())
def test_rubbish_is_never_more_than_a_capture_error(data: bytes, is_packet: bool) -> None:
    file = building.pcap([(0, data)]) if is_packet else data
    with contextlib.nullcontext() if is_packet else contextlib.suppress(CaptureError):
        list(read_records(io.BytesIO(file)))


# ------------------------------------------------------------------------------------------------------------ the end


def segments_of(path: Path) -> list[TCPSegment]:
    dissector = Dissector()
    return [found for packet in read_packets(path) if (found := dissector.segment(packet)) is not None]


def decoded_segments(segments: Iterable[TCPSegment]) -> list[Decoded]:
    reassembler, decoder = Reassembler(), Decoder()
    found = [each for segment in segments for event in reassembler.feed(segment) for each in decoder.feed(event)]
    return found + [each for event in reassembler.finish() for each in decoder.feed(event)]


def reset_after(segments: list[TCPSegment], sender: str, ahead: int = 0) -> TCPSegment:
    """An RST of the client or the server of a connection, at the byte that it sends next, or ahead of it."""
    client = segments[0].flow
    last = [each for each in segments if (each.flow == client) == (sender == "client")][-1]
    seq = last.seq + len(last.payload) + ahead + (last.flags & SYN == SYN)
    return TCPSegment(segments[-1].ts_ns + 7, last.flow, seq & 0xFFFFFFFF, 0, RST, b"", 0)


BOTH_PROTOCOLS = pytest.mark.parametrize(
    "path", [golden.FOLDER / "consume-large.pcapng", amqp010.capture(amqp010.QPIDD)], ids=["0-9-1", "0-10"]
)


@BOTH_PROTOCOLS
@pytest.mark.parametrize("sender", ["client", "server"])
def test_a_reset_ends_a_connection_when_it_comes(path: Path, sender: str) -> None:
    segments = segments_of(path)
    for size in range(6, len(segments) - 6, len(segments) // 7):
        reset = reset_after(segments[:size], sender)
        found = decoded_segments([*segments[:size], reset, *segments[size:]])
        assert isinstance(found[-1], StreamEnded)
        assert (found[-1].reason, found[-1].ts_ns) == (f"{sender} reset the connection", reset.ts_ns)
        assert max(each.ts_ns for each in found) == reset.ts_ns


@BOTH_PROTOCOLS
@pytest.mark.parametrize("ahead", [-(2**29), -1, 100_000, 2**29])
def test_a_forged_reset_changes_nothing(path: Path, ahead: int) -> None:
    segments = segments_of(path)
    slow = [
        TCPSegment(n * 10**9, each.flow, each.seq, each.ack, each.flags, each.payload, 0)
        for n, each in enumerate(segments)
    ]
    half = len(slow) // 2
    found = decoded_segments([*slow[:half], reset_after(slow[:half], "server", ahead), *slow[half:]])
    expected = decoded_segments(slow)
    assert [each.to_json() for passed in found for each in records_of(passed)] == [
        each.to_json() for passed in expected for each in records_of(passed)
    ]
    assert found[-1] == expected[-1]


@pytest.mark.parametrize(
    ("ends", "reason", "ts_ns"),
    [
        ([(True, FIN)], "client closed without connection.close", 7_000),
        ([(False, FIN)], "server closed without connection.close", 7_000),
        ([(False, FIN), (True, FIN)], "server closed without connection.close", 8_000),
        ([(True, FIN), (False, RST)], "client closed without connection.close", 8_000),
        ([(True, RST)], "client reset the connection", 7_000),
        ([], "the capture ends", 99_000),
    ],
)
def test_who_ended_a_connection_and_when(ends: list[tuple[bool, int]], reason: str, ts_ns: int) -> None:
    """A FIN of one end alone is its end too, though the other might have gone on."""
    packets = conversation(segment=1000)[:-2]
    whole = len(HEADER + TUNE_OK + OPEN + b"".join(PUBLISHED))
    after = {True: (40000, 5672, 1000 + whole, 0), False: (5672, 40000, 5000 + len(TUNE), 0)}
    for is_client, flags in ends:
        source, target, seq, ack = after[is_client]
        body = building.tcp(source=source, target=target, seq=seq, ack=ack, flags=flags)
        addresses = (building.CLIENT, building.SERVER)[:: 1 if is_client else -1]
        packets.append(building.ethernet(building.ipv4(body, source=addresses[0], target=addresses[1])))
    file = building.pcap([*((n * 1000, each) for n, each in enumerate(packets)), (99_000, conversation(40001)[0])])
    ended = [each for each in read_decoded(io.BytesIO(file)) if isinstance(each, StreamEnded)]
    assert [(each.reason, each.ts_ns) for each in ended] == [(reason, ts_ns)]


# ------------------------------------------------------------------------------------------------------- several files


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("name", ["consume-large", "confirms.ports-reused", "publish-get-ack.wrapped"])
def test_the_files_of_a_ring_are_one_capture(name: str, size: int, tmp_path: Path) -> None:
    """A connection goes on from one to the next, in the middle of a content and of a frame."""
    whole = golden.FOLDER / f"{name}.pcapng"
    packets = list(read_packets(whole))
    for number, at in enumerate(range(0, len(packets), size)):
        part = [(packet.ts_ns, packet.data) for packet in packets[at : at + size]]
        link_type = packets[0].link_type
        data = building.pcap(part, nanoseconds=True, link_type=link_type)
        (tmp_path / f"ring{number}.pcap").write_bytes(data)
    files = sorted(tmp_path.iterdir(), key=lambda path: int(path.stem[4:]))
    expected = golden.records_path(whole).read_text().splitlines()
    for sources in (files, tmp_path):
        assert [record.to_json().decode() for record in read_records(sources)] == expected


def test_two_rings_in_one_directory(tmp_path: Path) -> None:
    """As of two proxies: their files overlap in time, and their connections go on all the same."""
    one, other = (golden.FOLDER / f"{name}.pcapng" for name in ("consume-large", "publish-get-ack"))
    begin = min(packet.ts_ns for packet in read_packets(one))
    for turn, path in enumerate((one, other)):
        packets = list(read_packets(path))
        shift = begin - packets[0].ts_ns + turn * 1_000_000_000
        for number in range(3):
            part = packets[number * len(packets) // 3 : (number + 1) * len(packets) // 3]
            timed = [(packet.ts_ns + shift + number * 2_000_000_000, packet.data) for packet in part]
            late = part[0].ts_ns + 1_900_000_000
            data = building.pcap([*timed[:-1], (late + shift + number * 2_000_000_000, timed[-1][1])], nanoseconds=True)
            (tmp_path / f"{2 * number + turn}.pcap").write_bytes(data)
    found = [json.loads(record.to_json()) for record in read_records(tmp_path)]
    for stream, path in enumerate((one, other)):
        expected = [json.loads(line) for line in golden.records_path(path).read_text().splitlines()]
        own = [record for record in found if record["stream"] == stream]
        assert [{**record, "ts_ns": 0} for record in own] == [
            {**record, "ts_ns": 0, "stream": stream} for record in expected
        ]


def test_a_directory_of_captures_that_have_nothing_to_do_with_each_other() -> None:
    """Several of the corpus are of the same connection, whole and in part."""
    one_by_one = [json.loads(record.to_json()) for path in golden.captures() for record in read_records(path)]
    together = [json.loads(record.to_json()) for record in read_records(golden.FOLDER)]

    def but_for_streams(records: list[dict[str, object]]) -> list[str]:
        return sorted(json.dumps({**record, "stream": 0}) for record in records)

    assert but_for_streams(together) == but_for_streams(one_by_one)
    assert len({record["stream"] for record in together}) == len(golden.captures()) + 1  # one has two


def test_a_file_that_begins_before_the_last_one_ended_was_captured_on_its_own() -> None:
    """Its connections are others, even where their ports and sequence numbers are the same."""
    path = golden.FOLDER / "confirms.pcapng"
    once = [json.loads(line) for line in golden.records_path(path).read_text().splitlines()]
    twice = [json.loads(record.to_json()) for record in read_records([path, path])]
    again = [{**record, "stream": record["stream"] + 1 + max(each["stream"] for each in once)} for record in once]
    assert twice == once + again


def recording() -> io.BytesIO:
    """A recording: a command that a rule has changed, after one that it has not, on both legs."""
    blocks = [building.section(options=building.option(4, b"amqproxy 1.0"))]
    blocks += [building.interface(options=building.option(2, name)) for name in (b"client", b"upstream")]
    changed = 'amqproxy: {} leg; changed by "r"'
    for number, (leg, port) in enumerate((("client", 40000), ("upstream", 50000))):
        seq = 1000
        for data, comment in ((HEADER, ""), (PUBLISHED[0], 'amqproxy: tags "t"'), (publish(number), changed)):
            packet = building.ethernet(building.ipv4(building.tcp(data, source=port, seq=seq)))
            options = building.option(1, comment.format(leg).encode()) if comment else b""
            blocks.append(building.enhanced(0, packet, number=number, options=options))
            seq += len(data)
    return io.BytesIO(b"".join(blocks))


@pytest.mark.parametrize("leg", ["client", "upstream"])
def test_a_recording_is_read_from_one_leg(leg: str) -> None:
    notices: list[CaptureWarning] = []
    decoded = list(read_decoded(recording(), notices.append, leg=leg))
    assert {each.leg for each in decoded} == {leg}
    notes = [each.note for each in decoded if isinstance(each, Amqp091DecodedFrames)]
    assert notes == [Note(tags=("t",)), Note(("r",), (), "changed", leg)]
    other = "upstream" if leg == "client" else "client"
    assert [(notice.kind, f"3 packets of the {other} leg" in notice.text) for notice in notices] == [
        (WarningKind.IGNORED, True)
    ]
    records = list(read_records(recording(), leg=leg))
    assert [(each.leg, each.rules, each.tags, each.verdict) for each in records if each.type == "method"] == [
        (None, None, ("t",), None),
        (leg, ("r",), None, "changed"),
    ]


def test_a_recording_is_read_from_both_legs() -> None:
    notices: list[CaptureWarning] = []
    records = list(read_records(recording(), notices.append, leg="both"))
    assert not notices
    methods = [(each.connection[:14], each.leg) for each in records if each.type != "body" and each.type != "header"]
    assert methods == [("10.0.0.1:40000", "client")] * 3 + [("10.0.0.1:50000", "upstream")] * 3


def test_what_rules_did_is_in_the_messages_of_a_recording() -> None:
    frames = [each for each in read_decoded(recording()) if isinstance(each, Amqp091DecodedFrames)]
    reports = list(observed([*frames, StreamEnded(0, 0, "", "over")], ObserverSettings()))
    published = [each for each in reports if isinstance(each, MessageRecord) and each.type == "publish"]
    assert [(each.rules, each.tags) for each in published] == [
        (None, ("t",)),
        (("r",), None),
    ]


def test_comments_of_users_are_in_the_records() -> None:
    """A packet's are in the records of its frames; those on earlier packets of a frame are in the frame's."""
    blocks = [building.section(), building.interface()]
    seq = 1000
    for data, comments in (
        (HEADER + OPEN, ["one", 'amqproxy: tags "t"', "other"]),
        (TUNE_OK[:9], ["begins"]),
        (TUNE_OK[9:] + OPEN[:3], []),
        (OPEN[3:], ["ends"]),
        (TUNE_OK, []),
    ):
        packet = building.ethernet(building.ipv4(building.tcp(data, seq=seq)))
        options = b"".join(building.option(1, each.encode()) for each in comments)
        blocks.append(building.enhanced(seq, packet, options=options))
        seq += len(data)
    records = [each for each in read_records(io.BytesIO(b"".join(blocks))) if each.type == "method"]
    assert [(each.tags, each.comments) for each in records] == [
        (("t",), ("one", "other")),
        (None, ("begins",)),
        (None, ("ends",)),
        (None, None),
    ]
    assert json.loads(records[0].to_json())["comments"] == ["one", "other"]
    assert line(records[1]).endswith("[★ begins]")


def test_a_comment_on_a_cut_packet_is_that_of_its_frame() -> None:
    blocks, seq = [building.section(), building.interface()], 1000
    for data, cut, comments in (
        (HEADER + encode_method(1, BasicPublish()) + encode_frame(2, 1, ContentHeader(10).encode()), 0, []),
        (encode_frame(3, 1, b"0123456789"), 4, ["cut"]),
        (OPEN, 0, []),
        (TUNE_OK, 0, ["other"]),
    ):
        packet = building.ethernet(building.ipv4(building.tcp(data, seq=seq)))
        options = b"".join(building.option(1, each.encode()) for each in comments)
        kept = packet[: len(packet) - cut]
        blocks.append(building.enhanced(seq, kept, original=len(packet), options=options))
        seq += len(data)
    records = list(read_records(io.BytesIO(b"".join(blocks))))
    assert [(each.type, each.lost, each.comments) for each in records[1:]] == [
        ("method", None, None),
        ("header", None, None),
        ("body", 3, ("cut",)),
        ("method", None, None),
        ("method", None, ("other",)),
    ]


def test_the_comments_of_one_frame_are_bounded() -> None:
    decoder, data = Decoder(), encode_frame(3, 1, bytes(1_000))
    decoder.feed(Opened(0, 0, (Endpoint(b"\0\0\0\1", 1), Endpoint(b"\0\0\0\2", 5672)), True))
    decoder.feed(Data(0, 0, 0, HEADER + OPEN))
    passed = [each for at in range(len(data)) for each in decoder.feed(Data(0, 0, 0, data[at : at + 1], (f"c {at}",)))]
    (frames,) = passed
    assert isinstance(frames, DecodedFrames)
    assert frames.note.comments[:2] == ("c 0", "c 1")
    assert len(frames.note.comments) == MAX_COMMENTS
