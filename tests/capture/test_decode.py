"""From a capture file to records."""

import contextlib
import io
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import BasicPublish, ChannelOpen, ConnectionTune, ConnectionTuneOk
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.capture.decode import read_decoded, read_records
from amqproxy.capture.decoded import DecodedFrames
from amqproxy.capture.warnings import CaptureError, CaptureWarning, WarningKind
from amqproxy.taps.record import Record
from tests.capture import building
from tests.capture.building import ACK, CLIENT6, FIN, SERVER6, SYN

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
        if isinstance(passed, DecodedFrames) and passed.sender == "client"
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
