"""The pcapng file format."""

import contextlib
import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.capture import pcapng
from amqproxy.capture.files import read_packets
from amqproxy.capture.pcap import Packet
from amqproxy.capture.warnings import CaptureError, CaptureWarning, WarningKind
from tests.capture import building
from tests.capture.building import block, enhanced, interface, obsolete, option, section, simple

NOW = 1_700_000_000_123_456_789
MICROSECONDS = NOW // 1000


def read(*blocks: bytes) -> tuple[list[Packet], list[CaptureWarning]]:
    notices: list[CaptureWarning] = []
    return list(read_packets(io.BytesIO(b"".join(blocks)), notices.append)), notices


@pytest.mark.parametrize("order", "<>")
def test_every_kind_of_packet_block(order: str) -> None:
    found, notices = read(
        section(order),
        interface(113, order=order),
        enhanced(MICROSECONDS, b"enhanced", order=order),
        obsolete(MICROSECONDS, b"obsolete", order=order),
        simple(b"simple", order=order),
    )
    assert [packet.data for packet in found] == [b"enhanced", b"obsolete", b"simple"]
    assert [packet.ts_ns for packet in found] == [MICROSECONDS * 1000, MICROSECONDS * 1000, 0]
    assert {packet.link_type for packet in found} == {113}
    assert not notices


@pytest.mark.parametrize(
    ("resolution", "stamp", "expected"),
    [
        (b"\x00", NOW // 10**9, NOW // 10**9 * 10**9),
        (b"\x03", NOW // 10**6, NOW // 10**6 * 10**6),
        (b"\x09", NOW, NOW),
        (b"\x0c", 5_123_456_789_999, 5_123_456_789),
        (b"\x80", 1_700_000_000, 1_700_000_000 * 10**9),
        (b"\x8a", 1_700_000_000 * 1024 + 512, 1_700_000_000 * 10**9 + 5 * 10**8),
        (b"\xa0", (1_700_000_000 << 32) + (1 << 31), 1_700_000_000 * 10**9 + 5 * 10**8),
        (b"\x7f", 2**64 - 1, 0),
        (b"\xff", 2**64 - 1, 0),
    ],
)
def test_clock_resolutions(resolution: bytes, stamp: int, expected: int) -> None:
    found, _ = read(section(), interface(options=option(9, resolution)), enhanced(stamp, b"x"), obsolete(stamp, b"x"))
    assert [packet.ts_ns for packet in found] == [expected, expected]


def test_a_clock_offset_is_in_seconds_and_may_be_negative() -> None:
    options = option(14, struct.pack("<q", -3600)) + option(0, b"")
    found, _ = read(section(), interface(options=options), enhanced(MICROSECONDS, b"x"))
    assert found[0].ts_ns == (MICROSECONDS - 3600 * 10**6) * 1000


def test_options_before_after_and_beyond_the_end_do_not_matter() -> None:
    options = option(1, b"a comment") + option(9, b"\x09") + option(0, b"") + option(9, b"\x03")
    commented = enhanced(NOW, b"x", options=option(1, b"why") + option(0, b""))
    found, _ = read(section(options=option(1, b"hello")), interface(options=options), commented)
    assert found == [Packet(NOW, 1, b"x", 1, "", ("why",))]


class Trickle(io.BytesIO):
    """A few bytes at a time, so that no block is in the buffer as a whole."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(9)


@pytest.mark.parametrize("stream", [io.BytesIO, Trickle])
def test_packets_have_their_comments(stream: type[io.BytesIO]) -> None:
    many = option(1, b"one") + option(2, bytes(4)) + option(1, "zwö".encode()) + option(0, b"") + option(1, b"after")
    packets = [enhanced(NOW, b"data", options=each) for each in (many, many, b"")]
    found = list(read_packets(stream(b"".join([section(), interface(), *packets]))))
    assert [packet.comments for packet in found] == [("one", "zwö"), ("one", "zwö"), ()]


@pytest.mark.parametrize(("by_section", "by_interface"), [(True, False), (False, True), (False, False)])
def test_the_legs_of_a_recording_are_known_by_the_names_of_its_interfaces(by_section: bool, by_interface: bool) -> None:
    header = section(options=option(4, b"amqproxy 1.0" if by_section else b"Dumpcap"))
    described = option(3, b"amqproxy: a leg") if by_interface else b""
    names = ("client", "upstream", "eth0", "client6")
    interfaces = [interface(options=option(2, name.encode()) + described) for name in names]
    found, _ = read(header, *interfaces, *[enhanced(NOW, b"x", number=number) for number in range(4)])
    is_recording = by_section or by_interface
    assert [packet.leg for packet in found] == (["client", "upstream", "", ""] if is_recording else [""] * 4)


def test_each_interface_has_its_link_type_and_clock() -> None:
    found, _ = read(
        section(),
        interface(1),
        interface(101, options=option(9, b"\x09")),
        enhanced(NOW, b"b", number=1),
        enhanced(MICROSECONDS, b"a"),
    )
    assert [(packet.link_type, packet.ts_ns) for packet in found] == [(101, NOW), (1, MICROSECONDS * 1000)]


def test_each_section_has_a_byte_order() -> None:
    found, _ = read(
        section("<"),
        interface(1),
        enhanced(1, b"a"),
        section(">"),
        interface(113, order=">"),
        enhanced(2, b"b", order=">"),
        section("<"),
        interface(276),
        enhanced(3, b"c"),
    )
    assert [(p.ts_ns, p.link_type, p.data) for p in found] == [(1000, 1, b"a"), (2000, 113, b"b"), (3000, 276, b"c")]


def test_blocks_of_other_kinds_are_passed_over() -> None:
    others = [block(kind, b"anything at all") for kind in (4, 5, 8, 9, 10, 11, 0xBAD, 0x40000BAD, 0x80000001, 77)]
    mixed = [part for other in others for part in (other, enhanced(1, b"x"))]
    found, notices = read(section(), interface(), *mixed)
    assert len(found) == len(others)
    assert not notices


def test_a_simple_packet_is_as_long_as_the_snapshot_length_lets_it_be() -> None:
    cut = block(3, struct.pack("<I", 1000) + b"abcdefgh")
    found, _ = read(section(), interface(snap_length=6), cut)
    assert found == [Packet(0, 1, b"abcdef", 1000)]


def test_a_snapshot_length_that_means_nothing_is_no_limit() -> None:
    found, _ = read(section(), interface(snap_length=0xFFFFFFFF), simple(b"abc"), enhanced(1, b"x" * 100))
    assert [packet.data for packet in found] == [b"abc", b"x" * 100]


def test_a_packet_that_was_cut_keeps_its_length() -> None:
    found, _ = read(section(), interface(), enhanced(1, b"abc", original=1500))
    assert (found[0].data, found[0].original_length) == (b"abc", 1500)


def test_a_file_cut_anywhere_gives_what_came_before_and_a_warning() -> None:
    blocks = [section(), interface(), enhanced(1, b"abc"), block(5, b"statistics"), simple(b"abcd")]
    whole = b"".join(blocks)
    ends = {sum(map(len, blocks[:count])) for count in range(1, len(blocks) + 1)}
    everything, _ = read(whole)
    for cut in range(4, len(whole)):
        found, notices = read(whole[:cut])
        assert found == everything[: len(found)]
        assert [notice.kind for notice in notices] == ([] if cut in ends else [WarningKind.CUT_SHORT])


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (struct.pack("<III", 6, 8, 8), "claims 8 bytes"),
        (struct.pack("<III", 6, 1 << 31, 0), f"claims {1 << 31} bytes"),
        (enhanced(1, b"x" * 40)[:-4] + b"\1\2\3\4", "begins with length 72, ends with 67305985"),
        (enhanced(1, b"x", number=7), "interface 7, which was not described"),
        (block(6, b"short"), "a block of kind 6 is too short"),
        (block(3, b""), "a block of kind 3 is too short"),
        (block(1, b""), "a block of kind 1 is too short"),
        (block(6, struct.pack("<IIIII", 0, 0, 0, 500, 500) + b"x" * 8), "500 bytes does not fit its block"),
        (block(0x0A0D0D0A, b"no magic here...."), "no byte order magic"),
        (block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 9, 0, -1)), "version 9"),
    ],
)
def test_what_is_broken_is_an_error_after_what_came_before(broken: bytes, reason: str) -> None:
    good = section() + interface() + enhanced(1, b"good")
    packets = read_packets(io.BytesIO(good + broken))
    assert next(packets).data == b"good"
    with pytest.raises(CaptureError, match=reason) as caught:
        next(packets)
    assert caught.value.offset == len(good)


def test_a_block_need_not_end_on_four_bytes() -> None:
    odd = struct.pack("<IIIIIII", 6, 35, 0, 0, 1, 3, 3) + b"abc" + struct.pack("<I", 35)
    found, _ = read(section(), interface(), odd, enhanced(1, b"next"))
    assert [packet.data for packet in found] == [b"abc", b"next"]


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.binary(max_size=100)), max_size=10), st.sampled_from("<>"))
def test_what_was_written_is_read(packets: list[building.Timed], order: str) -> None:
    written = [enhanced(stamp, raw, order=order) for stamp, raw in packets]
    found, _ = read(section(order), interface(options=option(9, b"\x09", order), order=order), *written)
    assert [(packet.ts_ns, packet.data) for packet in found] == packets


@given(st.binary(max_size=300), st.sampled_from([1, 2, 3, 6, 0x0A0D0D0A]))
def test_rubbish_is_never_more_than_a_capture_error(rubbish: bytes, kind: int) -> None:
    for raw in (section() + rubbish, section() + interface() + block(kind, rubbish)):
        with contextlib.suppress(CaptureError):
            read(raw)


def test_long_comments_are_not_kept() -> None:
    """A thousand packets with a megabyte each would take a gigabyte of memory while they are read."""
    reader = pcapng._Section("<", lambda kind, text, position: None)
    short, long = (option(1, text * 1000) * 100 for text in (b"", b"x"))
    for options in (short, long):
        assert len(reader.comments(options, 0)) == 100
    assert list(reader._known_comments) == [short]
