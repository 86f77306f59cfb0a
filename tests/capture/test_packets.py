"""From captured packets to TCP segments: every link layer, IP and TCP in all their forms."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.capture.packets import ACK, FIN, SYN, Dissector, TCPSegment
from amqproxy.capture.pcap import Packet
from amqproxy.capture.warnings import CaptureWarning, WarningKind
from tests.capture.building import address, ethernet, ipv4, ipv6, tcp

PAYLOAD = b"AMQP\x00\x00\x09\x01"
TCP = tcp(PAYLOAD, seq=1000, ack=2000)
IPV4 = ipv4(TCP)
IPV6 = ipv6(TCP)
FLOW = address("10.0.0.1") + address("10.0.0.2") + struct.pack(">HH", 40000, 5672)
FLOW6 = address("fd00::1") + address("fd00::2") + struct.pack(">HH", 40000, 5672)


def dissect(raw: bytes, link_type: int = 1, original: int | None = None) -> TCPSegment | None:
    return Dissector().segment(Packet(7, link_type, raw, len(raw) if original is None else original))


def expected(flow: bytes = FLOW, payload: bytes = PAYLOAD, missing: int = 0) -> TCPSegment:
    return TCPSegment(7, flow, 1000, 2000, ACK, payload, missing)


def cooked(kind: int) -> bytes:
    return struct.pack(">HHH8sH", 0, 1, 6, b"\x02\0\0\0\0\x01", kind)


def cooked2(kind: int) -> bytes:
    return struct.pack(">HHIHBB8s", kind, 0, 1, 1, 0, 6, b"\x02\0\0\0\0\x01")


def pppoe(payload: bytes) -> bytes:
    return struct.pack(">BBHH", 0x11, 0, 1, len(payload)) + payload


@pytest.mark.parametrize(
    ("link_type", "before"),
    [
        (0, b"\2\0\0\0"),
        (0, b"\0\0\0\2"),
        (108, b"\0\0\0\2"),
        (1, ethernet(b"")),
        (1, ethernet(b"", tags=[(0x8100, 5)])),
        (1, ethernet(b"", tags=[(0x88A8, 5), (0x8100, 6)])),
        (1, ethernet(b"", tags=[(0x9100, 5), (0x9200, 6), (0x8100, 7)])),
        (1, ethernet(pppoe(b"\x00\x21"), 0x8864)),
        (1, ethernet(pppoe(b"\x00\x21"), 0x8864, [(0x8100, 7)])),
        (1, ethernet(b"\xaa\xaa\x03\0\0\0\x08\x00", 100)),
        (9, b"\xff\x03\x00\x21"),
        (9, b"\x00\x21"),
        (9, b"\x21"),
        (9, b"\xff\x03\x21"),
        (50, b"\xff\x03\x00\x21"),
        (51, pppoe(b"\x00\x21")),
        (12, b""),
        (14, b""),
        (101, b""),
        (228, b""),
        (113, cooked(0x0800)),
        (113, cooked(0x8100) + b"\0\5\x08\0"),
        (276, cooked2(0x0800)),
        (276, cooked2(0x88A8) + b"\0\5\x81\0\0\6\x08\0"),
    ],
)
def test_link_layers(link_type: int, before: bytes) -> None:
    assert dissect(before + IPV4, link_type) == expected()


@pytest.mark.parametrize(
    ("link_type", "before"),
    [
        *((0, bytes([0, 0, 0, family])) for family in (10, 24, 28, 30)),
        *((0, bytes([family, 0, 0, 0])) for family in (10, 24, 28, 30)),
        (108, b"\0\0\0\x18"),
        (1, ethernet(b"", 0x86DD)),
        (1, ethernet(b"", 0x86DD, [(0x8100, 1), (0x8100, 2)])),
        (1, ethernet(pppoe(b"\x00\x57"), 0x8864)),
        (9, b"\xff\x03\x00\x57"),
        (12, b""),
        (101, b""),
        (229, b""),
        (113, cooked(0x86DD)),
        (276, cooked2(0x86DD)),
    ],
)
def test_link_layers_that_carry_ipv6(link_type: int, before: bytes) -> None:
    assert dissect(before + IPV6, link_type) == expected(FLOW6)


@pytest.mark.parametrize(
    ("link_type", "raw"),
    [
        (0, b"\0\0\0\7" + IPV4),
        (0, b"\2\0\0\2" + IPV4),
        (1, ethernet(b"\0\1\x08\0" + IPV4, 0x0806)),
        (1, ethernet(IPV4, 0x88CC)),
        (1, ethernet(IPV4, 100)),
        (1, ethernet(b"", 0x8100)),
        (1, ethernet(b"\x12\0" + pppoe(b"\x00\x21") + IPV4, 0x8864)),
        (1, ethernet(pppoe(b"\xc0\x21") + IPV4, 0x8864)),
        (9, b"\xff\x03\x80\x21" + IPV4),
        (101, ipv4(TCP, protocol=17)),
        (101, ipv6(TCP, protocol=17)),
        (101, ipv6(TCP, protocol=59)),
        (101, b"\x50" + IPV4[1:]),
        (101, b"\x44" + IPV4[1:]),
        (101, ipv4(TCP, length=19)),
        (101, ipv4(TCP[:19])),
        (101, ipv4(TCP[:12] + b"\x40" + TCP[13:])),
        (101, ipv4(TCP[:12] + b"\xf0" + TCP[13:])),
    ],
)
def test_what_is_not_tcp_over_ip_is_left_out(link_type: int, raw: bytes) -> None:
    assert dissect(raw, link_type) is None


def test_an_unknown_link_type_is_a_warning_once() -> None:
    notices: list[CaptureWarning] = []
    dissector = Dissector("file.pcap", notices.append)
    for link_type in (105, 105, 9999, 105, 9999):
        assert dissector.segment(Packet(0, link_type, IPV4, len(IPV4))) is None
    assert [notice.kind for notice in notices] == [WarningKind.LINK_TYPE] * 2
    assert "105 (IEEE 802.11)" in str(notices[0])
    assert str(notices[1]).startswith("file.pcap: packets of link type 9999")


def test_tcp_fields() -> None:
    raw = tcp(b"abc", seq=0xFFFFFFFF, ack=0x80000001, flags=FIN | SYN, source=1, target=65535)
    flow = FLOW[:8] + b"\0\1\xff\xff"
    assert dissect(ipv4(raw), 101) == TCPSegment(7, flow, 0xFFFFFFFF, 0x80000001, FIN | SYN, b"abc", 0)


@pytest.mark.parametrize("size", [4, 12, 40])
def test_tcp_options_are_passed_over(size: int) -> None:
    assert dissect(ipv4(tcp(PAYLOAD, seq=1000, ack=2000, options=b"\1" * size)), 101) == expected()


@pytest.mark.parametrize("size", [4, 40])
def test_ipv4_options_are_passed_over(size: int) -> None:
    assert dissect(ipv4(TCP, options=b"\1" * size), 101) == expected()


def test_ethernet_padding_is_not_payload() -> None:
    empty = ipv4(tcp(seq=1000, ack=2000))
    assert dissect(ethernet(empty) + b"\0" * 6) == expected(payload=b"")
    assert dissect(ethernet(IPV6, 0x86DD) + b"\xde\xad\xbe\xef") == expected(FLOW6)


def test_a_length_of_zero_means_all_there_is() -> None:
    """Segmentation offload: the card cuts what is captured whole, and writes the lengths."""
    large = tcp(b"x" * 80_000, seq=1000, ack=2000)
    assert dissect(ethernet(ipv4(large, length=0))) == expected(payload=b"x" * 80_000)
    assert dissect(ethernet(ipv6(large, length=0), 0x86DD)) == expected(FLOW6, payload=b"x" * 80_000)
    cut = ethernet(ipv4(large, length=0))[:100]
    segment = dissect(cut, original=14 + 20 + 20 + 80_000)
    assert segment == expected(payload=b"x" * 46, missing=80_000 - 46)


@pytest.mark.parametrize(
    ("protocol", "headers"),
    [
        (0, b"\x06\x00" + b"\1\4\0\0\0\0"),
        (43, b"\x06\x02" + bytes(22)),
        (60, b"\x06\x00" + bytes(6)),
        (51, b"\x06\x04" + bytes(22)),
        (44, b"\x06\x00\x00\x00" + bytes(4)),
        (0, b"\x3c\x00" + bytes(6) + b"\x2b\x00" + bytes(6) + b"\x33\x01" + bytes(14) + b"\x06\x01" + bytes(10)),
    ],
    ids=["hop-by-hop", "routing", "destination", "authentication", "atomic fragment", "chain"],
)
def test_ipv6_extension_headers(protocol: int, headers: bytes) -> None:
    assert dissect(ipv6(headers + TCP, protocol=protocol), 101) == expected(FLOW6)


def test_ip_in_ip_is_followed_a_few_times() -> None:
    assert dissect(ipv4(IPV4, protocol=4, source="1.1.1.1"), 101) == expected()
    assert dissect(ipv4(IPV6, protocol=41), 101) == expected(FLOW6)
    assert dissect(ipv6(IPV4, protocol=4), 101) == expected()
    deep = IPV4
    for _ in range(5):
        deep = ipv4(deep, protocol=4)
    assert dissect(deep, 101) is None


# ------------------------------------------------------------------------------------------------------ cut packets


def test_a_cut_payload_counts_what_is_missing() -> None:
    whole = ethernet(ipv4(tcp(b"x" * 1000, seq=1000, ack=2000)))
    for kept in (0, 1, 999):
        segment = dissect(whole[: 54 + kept], original=len(whole))
        assert segment == expected(payload=b"x" * kept, missing=1000 - kept)


def test_cut_options_leave_only_missing_payload() -> None:
    whole = ethernet(ipv4(tcp(b"x" * 100, seq=1000, ack=2000, options=b"\1" * 12)))
    assert dissect(whole[:60], original=len(whole)) == expected(payload=b"", missing=100)


def test_cut_headers_are_counted_in_a_warning_at_the_end() -> None:
    notices: list[CaptureWarning] = []
    dissector = Dissector(notify=notices.append)
    whole = ethernet(IPV4)
    for size in range(15, 54):
        assert dissector.segment(Packet(0, 1, whole[:size], len(whole))) is None
    dissector.finish()
    assert [notice.kind for notice in notices] == [WarningKind.HEADERS]
    assert str(notices[0]).startswith("capture: 39 packets")


# -------------------------------------------------------------------------------------------------------- fragments


def fragments4(raw: bytes, *sizes: int, number: int = 1, protocol: int = 6) -> list[bytes]:
    packets, at = [], 0
    for size in [*sizes, len(raw)]:
        part = raw[at : at + size]
        more = 0x2000 if at + size < len(raw) else 0
        packets.append(ipv4(part, number=number, place=more | at // 8, protocol=protocol))
        at += len(part)
    return packets


def fragments6(raw: bytes, *sizes: int, number: int = 1) -> list[bytes]:
    packets, at = [], 0
    for size in [*sizes, len(raw)]:
        part = raw[at : at + size]
        more = 1 if at + size < len(raw) else 0
        packets.append(ipv6(struct.pack(">BBHI", 6, 0, at | more, number) + part, protocol=44))
        at += len(part)
    return packets


@pytest.mark.parametrize(("cut", "flow"), [(fragments4, FLOW), (fragments6, FLOW6)], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 0, 1, 1, 2]])
def test_fragments_are_put_together_in_any_order(cut, flow: bytes, order: list[int]) -> None:  # type: ignore[no-untyped-def]
    packets = cut(tcp(b"x" * 1000, seq=1000, ack=2000), 8, 480)
    dissector = Dissector()
    found = [dissector.segment(Packet(7, 101, packets[index], len(packets[index]))) for index in order]
    assert found[-1] == expected(flow, payload=b"x" * 1000)
    assert found[:-1] == [None] * (len(order) - 1)


def test_missing_fragments_are_a_warning_at_the_end() -> None:
    notices: list[CaptureWarning] = []
    dissector = Dissector(notify=notices.append)
    for number in range(1, 5):
        first, _ = fragments4(tcp(b"x" * 100), 64, number=number)
        assert dissector.segment(Packet(7, 101, first, len(first))) is None
    cut = first[:-1]
    assert dissector.segment(Packet(7, 101, cut, len(first))) is None
    dissector.finish()
    assert [notice.kind for notice in notices] == [WarningKind.FRAGMENTS]
    assert "4 packets" in str(notices[0])


def test_fragments_of_other_protocols_are_left_out() -> None:
    notices: list[CaptureWarning] = []
    dissector = Dissector(notify=notices.append)
    for packet in fragments4(bytes(200), 64, protocol=17):
        assert dissector.segment(Packet(7, 101, packet, len(packet))) is None
    dissector.finish()
    assert not notices


# ---------------------------------------------------------------------------------------------------------- rubbish

LINK_TYPES = [0, 1, 9, 12, 14, 50, 51, 101, 108, 113, 228, 229, 276, 105]


@given(st.binary(max_size=200), st.sampled_from(LINK_TYPES), st.integers(0, 2**32 - 1))
def test_rubbish_is_never_an_error(raw: bytes, link_type: int, original: int) -> None:
    dissector = Dissector()
    dissector.segment(Packet(0, link_type, raw, original))
    dissector.segment(Packet(0, 1, ethernet(raw), original))
    dissector.segment(Packet(0, 101, b"\x45" + raw, original))
    dissector.segment(Packet(0, 101, b"\x60" + raw, original))
    dissector.finish()


WHOLE = [
    ethernet(ipv4(tcp(PAYLOAD, options=b"\1" * 8), options=b"\1" * 4), tags=[(0x8100, 1)]),
    ethernet(ipv6(b"\x2c\0" + bytes(6) + struct.pack(">BBHI", 6, 0, 0, 1) + TCP), 0x86DD),
    ethernet(fragments6(tcp(bytes(100)), 40)[1], 0x86DD),
    ethernet(ipv4(ipv6(TCP), protocol=41)),
]


@given(st.sampled_from(WHOLE), st.lists(st.tuples(st.integers(0, 120), st.integers(0, 255)), max_size=4), st.data())
def test_damage_is_never_an_error(raw: bytes, damage: list[tuple[int, int]], data: st.DataObject) -> None:
    changed = bytearray(raw)
    for place, value in damage:
        changed[place % len(changed)] = value
    changed = changed[: data.draw(st.integers(0, len(changed)))]
    segment = dissect(bytes(changed), original=len(raw))
    if segment is not None:
        assert segment.payload in bytes(changed)
        assert segment.missing >= 0
