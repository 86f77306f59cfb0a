"""Packets that are made up around bytes."""

from hypothesis import given
from hypothesis import strategies as st

from amqproxy.capture.endpoints import Endpoint
from amqproxy.capture.packets import ACK, FIN, RST, SYN, Dissector, TCPSegment
from amqproxy.capture.pcap import Packet
from amqproxy.capture.reassembly import Reassembler
from amqproxy.capture.stream_events import Closed, Data, Event, Gap, Opened, StreamEnd
from amqproxy.capture.synthetic_tcp import CLIENT, MAX_UNACKNOWLEDGED_SEGMENTS, SERVER, SyntheticTCP
from tests.capture.building import address

FOUR = Endpoint(address("10.0.0.1"), 40000), Endpoint(address("10.0.0.2"), 5672)
SIX = Endpoint(address("fd00::1"), 40000), Endpoint(address("fd00::2"), 5672)


def segment(header: bytes, data: bytes = b"") -> TCPSegment:
    found = Dissector().segment(Packet(0, 101, header + data, len(header) + len(data)))
    assert found is not None
    return found


def test_a_connection_from_beginning_to_end() -> None:
    tcp = SyntheticTCP(*FOUR, 0xFFFFFFFE)
    opening = [segment(header) for _, header in tcp.handshake()]
    assert [each.flags for each in opening] == [SYN, SYN | ACK, ACK]
    assert [each.seq for each in opening[::2]] == [0xFFFFFFFE, 0xFFFFFFFF]
    assert opening[2].ack == opening[1].seq + 1 & 0xFFFFFFFF
    first, second = segment(tcp.data(CLIENT, 8), b"12345678"), segment(tcp.data(CLIENT, 1), b"9")
    assert (first.seq, second.seq) == (0xFFFFFFFF, 7)
    answer = segment(tcp.data(SERVER, 1), b"a")
    assert answer.ack == 8
    closing = tcp.close(SERVER)
    assert [end for end, _ in closing] == [SERVER, CLIENT, SERVER]
    assert [segment(header).flags for _, header in closing] == [FIN | ACK, FIN | ACK, ACK]
    assert [segment(header).flags for _, header in tcp.reset(CLIENT)] == [RST | ACK]


def test_headers_of_ipv4_have_their_checksums() -> None:
    tcp = SyntheticTCP(*FOUR, 1)
    for size in (0, 1, 1000, 60_000):
        header = tcp.data(CLIENT, size)[:20]
        total = sum(int.from_bytes(header[at : at + 2]) for at in range(0, 20, 2))
        assert (total & 0xFFFF) + (total >> 16) == 0xFFFF
        assert int.from_bytes(header[2:4]) == 40 + size


def test_ends_of_different_kinds_are_both_written_as_ipv6() -> None:
    tcp = SyntheticTCP(FOUR[0], SIX[1], 1)
    assert [str(tcp.client), str(tcp.server)] == ["[::ffff:10.0.0.1]:40000", "[fd00::2]:5672"]
    assert segment(tcp.data(CLIENT, 1), b"x").payload == b"x"


def test_what_one_end_sends_is_acknowledged_now_and_then() -> None:
    tcp = SyntheticTCP(*SIX, 1)
    acknowledged = []
    for number in range(1, 1000):
        tcp.data(CLIENT, 10)
        if header := tcp.acknowledgement(CLIENT):
            acknowledged.append((number, segment(header).ack))
    assert acknowledged == [(n, 1 + n * 10) for n in range(MAX_UNACKNOWLEDGED_SEGMENTS, 1000, 64)]
    tcp.data(CLIENT, 10)
    tcp.data(SERVER, 1)
    assert not tcp.acknowledgement(CLIENT)


ends = st.sampled_from([FOUR, SIX, (FOUR[0], SIX[1])])
steps = st.lists(st.tuples(st.sampled_from(["data", "skip"]), st.integers(0, 1), st.integers(1, 300)), max_size=40)


@given(ends, st.integers(0, 2**70), steps, st.booleans(), st.sampled_from([StreamEnd.FIN, StreamEnd.RST]))
def test_what_was_sent_is_reassembled(
    pair: tuple[Endpoint, Endpoint],
    start: int,
    sent: list[tuple[str, int, int]],
    is_joined: bool,
    ending: StreamEnd,
) -> None:
    tcp = SyntheticTCP(*pair, start)
    reassembler = Reassembler()
    events: list[Event] = []
    expected: dict[int, list[bytes | int]] = {CLIENT: [], SERVER: []}

    def send(header: bytes, data: bytes = b"", comments: tuple[str, ...] = ()) -> None:
        packet = Packet(0, 101, header + data, len(header) + len(data), "client", comments)
        found = Dissector().segment(packet)
        assert found is not None
        events.extend(reassembler.feed(found))

    for _, header in [] if is_joined else tcp.handshake():
        send(header)
    skipped = {CLIENT: 0, SERVER: 0}
    for kind, end, size in sent:
        if kind == "skip":
            tcp.skip(end, size)
            skipped[end] += size
            continue
        lost, skipped[end] = skipped[end], 0
        if lost and (expected[end] or not is_joined):
            expected[end].append(lost)
        expected[end].append(bytes([size % 256]) * size)
        comment = ("amqproxy: 1 frame before this not recorded, 1 bytes",) if lost else ()
        send(tcp.data(end, size), bytes([size % 256]) * size, comment)
        if header := tcp.acknowledgement(end):
            send(header)
    for _, header in tcp.close(CLIENT) if ending is StreamEnd.FIN else tcp.reset(CLIENT):
        send(header)
    events += reassembler.finish()
    numbers = {0: CLIENT, 1: SERVER}
    if events and isinstance(events[0], Opened) and str(events[0].endpoints[0]) != str(tcp.client):
        numbers = {0: SERVER, 1: CLIENT}
    found: dict[int, list[bytes | int]] = {CLIENT: [], SERVER: []}
    for event in events:
        if isinstance(event, Data):
            found[numbers[event.direction]].append(event.data)
        elif isinstance(event, Gap) and len(found[numbers[event.direction]]) < len(expected[numbers[event.direction]]):
            found[numbers[event.direction]].append(event.lost)
    assert found == expected
    assert any(isinstance(event, Closed) and event.ending is ending for event in events)
