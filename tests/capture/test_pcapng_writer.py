"""Blocks that are written are read back."""

import io
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.capture.files import read_packets
from amqproxy.capture.pcap import Packet
from amqproxy.capture.pcapng_writer import (
    INBOUND,
    MAX_OPTION_BYTES,
    OUTBOUND,
    RAW_IP,
    interface_description,
    interface_statistics,
    packet,
    packet_options,
    section_header,
)
from tests.real.require import require

NOW = 1_700_000_000_123_456_789
BEGINNING = section_header(program="amqproxy 1.0", hardware="an abacus", system="none", comment="hello") + (
    interface_description("client", "one leg") + interface_description("upstream", "another", filter="true")
)


def read(data: bytes) -> list[Packet]:
    return list(read_packets(io.BytesIO(data), pytest.fail))


@given(
    st.lists(
        st.tuples(
            st.integers(0, 1),
            st.integers(0, 2**63),
            st.binary(max_size=9),
            st.binary(max_size=9),
            st.integers(0, 99),
            st.lists(st.text(max_size=9), max_size=2).map(tuple),
            st.integers(0, 2**64 - 1),
        )
    )
)
def test_packets_are_read_back(
    written: list[tuple[int, int, bytes, bytes, int, tuple[str, ...], int]],
) -> None:
    data = BEGINNING
    expected = []
    for number, ts_ns, header, rest, missing, comments, dropped in written:
        options = packet_options(OUTBOUND if number else INBOUND, comments, dropped)
        data += b"".join(packet(number, ts_ns, header, rest, missing, options))
        kept = header + rest
        leg = "upstream" if number else "client"
        expected.append(Packet(ts_ns, RAW_IP, kept, len(kept) + missing, leg, comments))
    data += interface_statistics(0, NOW, start_ns=NOW - 5, received=7, dropped=2)
    assert read(data) == expected


def test_every_block_is_of_whole_words_and_has_its_length_twice() -> None:
    data = BEGINNING + b"".join(packet(0, NOW, b"12345", memoryview(b"678"), 4, packet_options(INBOUND, ("é",), 3)))
    data += interface_statistics(1, NOW, start_ns=NOW - 5, received=7, dropped=2)
    position = 0
    kinds = []
    while position < len(data):
        kind, length = struct.unpack_from("<2I", data, position)
        assert length % 4 == 0
        assert struct.unpack_from("<I", data, position + length - 4) == (length,)
        kinds.append(kind)
        position += length
    assert kinds == [0x0A0D0D0A, 1, 1, 6, 5]


def test_a_comment_that_is_too_long_is_cut_at_a_character() -> None:
    text = "x" + "é" * 40_000
    (found,) = read(BEGINNING + b"".join(packet(0, NOW, b"", b"x", 0, packet_options(INBOUND, (text,)))))
    assert found.comments == (text[: (MAX_OPTION_BYTES - 1) // 2 + 1],)


@pytest.mark.real
def test_wireshark_reads_what_is_said_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "said.pcapng"
    data = BEGINNING + b"".join(packet(1, NOW, b"", b"E", 0, packet_options(INBOUND, ("why",), 3)))
    path.write_bytes(data + interface_statistics(0, NOW, start_ns=NOW - 5, received=7, dropped=2))
    about = subprocess.run([require("capinfos"), path], check=True, capture_output=True, text=True).stdout
    for text in (
        "an abacus",
        "Capture application: amqproxy 1.0",
        "Capture comment:     hello",
        "Description = another",
        "Filter string = true",
        "File timestamp precision:  nanoseconds (9)",
    ):
        assert text in about
    fields = ["frame.comment", "frame.interface_name", "frame.packet_flags_direction", "frame.time_epoch"]
    command = [require("tshark"), "-r", path, "-T", "fields", *(word for field in fields for word in ("-e", field))]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert shown.split() == ["why", "upstream", "0x00000001", "1700000000.123456789"]
