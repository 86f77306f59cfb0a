"""The pcap file format."""

import contextlib
import io
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.capture.files import read_packets
from amqproxy.capture.pcap import MAX_PACKET_BYTES, Packet
from amqproxy.capture.warnings import CaptureError, CaptureWarning, WarningKind
from tests.capture import building

NOW = 1_700_000_000_123_456_789
PACKETS = [(NOW, b"first"), (NOW + 1_000, b""), (NOW + 2_000_000_000, bytes(range(256)) * 9)]

timed = st.tuples(st.integers(0, 2**32 * 10**9 - 1), st.binary(max_size=300))


def read(raw: bytes) -> tuple[list[Packet], list[CaptureWarning]]:
    notices: list[CaptureWarning] = []
    return list(read_packets(io.BytesIO(raw), notices.append)), notices


@pytest.mark.parametrize(("order", "nanoseconds"), list(product("<>", (False, True))))
def test_byte_orders_and_resolutions(order: str, nanoseconds: bool) -> None:
    found, notices = read(building.pcap(PACKETS, order=order, nanoseconds=nanoseconds, link_type=113))
    assert [packet.data for packet in found] == [raw for _, raw in PACKETS]
    kept = 1 if nanoseconds else 1000
    assert [packet.ts_ns for packet in found] == [stamp // kept * kept for stamp, _ in PACKETS]
    assert {packet.link_type for packet in found} == {113}
    assert not notices


@pytest.mark.parametrize("order", "<>")
def test_modified_pcap_has_longer_packet_headers(order: str) -> None:
    found, _ = read(building.pcap(PACKETS, modified=True, order=order))
    assert [packet.data for packet in found] == [raw for _, raw in PACKETS]


def test_a_snapshot_length_cuts_the_data_and_not_the_length() -> None:
    found, _ = read(building.pcap([(NOW, b"x" * 100)], snap_length=40))
    assert (len(found[0].data), found[0].original_length) == (40, 100)


def test_the_upper_bits_of_the_link_type_are_about_checksums() -> None:
    found, _ = read(building.pcap(PACKETS, link_type=0xF4000001))
    assert found[0].link_type == 1


def test_an_empty_capture_is_not_an_error() -> None:
    assert read(building.pcap([])) == ([], [])


def test_a_file_cut_anywhere_gives_what_came_before_and_a_warning() -> None:
    whole = building.pcap(PACKETS)
    everything, _ = read(whole)
    ends = {24, 24 + 16 + 5, 24 + 16 + 5 + 16, len(whole)}
    for cut in range(4, len(whole)):
        found, notices = read(whole[:cut])
        assert found == everything[: len(found)]
        assert [notice.kind for notice in notices] == ([] if cut in ends else [WarningKind.CUT_SHORT])


def test_a_notice_names_the_place_of_the_packet_that_is_not_whole() -> None:
    _, notices = read(building.pcap(PACKETS)[:-1])
    assert notices[0].offset == 24 + 16 + 5 + 16
    assert "cut short" in str(notices[0])


def test_a_packet_too_large_to_be_one_is_an_error_after_what_came_before() -> None:
    broken = building.pcap(PACKETS[:1]) + b"\0" * 8 + (MAX_PACKET_BYTES + 1).to_bytes(4, "little") * 2
    packets = read_packets(io.BytesIO(broken))
    assert next(packets).data == b"first"
    with pytest.raises(CaptureError, match="bytes, more than any packet has") as caught:
        next(packets)
    assert caught.value.offset == 24 + 16 + 5


def test_a_version_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(CaptureError, match="version 3"):
        read(b"\xd4\xc3\xb2\xa1\x03\0" + bytes(18))


@given(st.lists(timed, max_size=20), st.sampled_from("<>"))
def test_what_was_written_is_read(packets: list[building.Timed], order: str) -> None:
    found, notices = read(building.pcap(packets, nanoseconds=True, order=order))
    assert [(packet.ts_ns, packet.data) for packet in found] == packets
    assert not notices


@given(st.binary(max_size=400), st.booleans())
def test_rubbish_is_never_more_than_a_capture_error(rubbish: bytes, has_header: bool) -> None:
    header = building.pcap([]) if has_header else building.pcap([])[:4]
    with contextlib.suppress(CaptureError):
        read(header + rubbish)
