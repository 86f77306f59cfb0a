"""Capture files: formats, sources, and errors about files that are none."""

import contextlib
import gzip
import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.capture import byte_window
from amqproxy.capture.files import read_packets
from amqproxy.capture.pcap import Packet
from amqproxy.capture.warnings import CaptureError, CaptureWarning, WarningKind
from tests.capture import building
from tests.real.require import require

NOW = 1_700_000_000_123_456_000
PACKETS = [(NOW + index * 1000, bytes([index % 256]) * (index % 1500)) for index in range(3000)]
PCAP = building.pcap(PACKETS)
PCAPNG = (
    building.section()
    + building.interface()
    + b"".join(building.enhanced(stamp // 1000, data) for stamp, data in PACKETS)
)
EXPECTED = [Packet(stamp, building.ETHERNET, data, len(data)) for stamp, data in PACKETS]


class Trickle(io.RawIOBase):
    """A pipe: it cannot seek, and gives what it has."""

    def __init__(self, data: bytes, step: int) -> None:
        self.pieces = iter([data[at : at + step] for at in range(0, len(data), step)])

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return next(self.pieces, b"")


def read(data: bytes) -> tuple[list[Packet], list[CaptureWarning]]:
    notices: list[CaptureWarning] = []
    return list(read_packets(io.BytesIO(data), notices.append)), notices


@pytest.mark.parametrize("flavour", [PCAP, PCAPNG], ids=["pcap", "pcapng"])
@pytest.mark.parametrize("is_packed", [False, True], ids=["plain", "gzip"])
def test_flavours_are_known_by_their_bytes(tmp_path: Path, flavour: bytes, is_packed: bool) -> None:
    path = tmp_path / "capture.txt"
    path.write_bytes(gzip.compress(flavour) if is_packed else flavour)
    assert list(read_packets(path)) == EXPECTED
    assert list(read_packets(str(path))) == EXPECTED


@pytest.mark.parametrize("step", [1, 7, 4096, 1 << 20])
@pytest.mark.parametrize("flavour", [PCAP, PCAPNG, gzip.compress(PCAPNG, mtime=0)], ids=["pcap", "pcapng", "gzip"])
def test_how_the_bytes_come_does_not_matter(flavour: bytes, step: int) -> None:
    if step == 1:
        flavour = gzip.compress(building.pcap(PACKETS[:40])) if flavour[:2] == b"\x1f\x8b" else flavour[:20_000]
    found = list(read_packets(Trickle(flavour, step)))  # type: ignore[arg-type]
    assert found == EXPECTED[: len(found)]
    assert len(found) == len(EXPECTED) or step == 1


def test_standard_input_is_read_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A packet is there as soon as it was written, while the pipe stays open."""
    reader, writer = os.pipe()
    with open(reader, "rb") as standard_input, open(writer, "wb", buffering=0) as pipe:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(standard_input))
        packets = read_packets("-")
        pipe.write(building.pcap(PACKETS[:1]))
        assert next(packets) == EXPECTED[0]
        pipe.write(building.pcap(PACKETS[1:3])[24:])
        assert [next(packets), next(packets)] == EXPECTED[1:3]
        pipe.close()
        assert list(packets) == []


def test_no_more_than_a_chunk_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long capture is not read into memory: the window never grows past a chunk and a packet."""
    monkeypatch.setattr(byte_window, "CHUNK_BYTES", 8192)
    window: list[int] = []
    before = byte_window.ByteWindow.need

    def measured(self: byte_window.ByteWindow, count: int) -> bool:
        answer = before(self, count)
        window.append(len(self.buffer))
        return answer

    monkeypatch.setattr(byte_window.ByteWindow, "need", measured)
    for flavour in (PCAP, PCAPNG, gzip.compress(PCAP)):
        list(read_packets(io.BytesIO(flavour)))
    assert max(window) <= 2 * 8192 + 1600


def test_gzip_of_several_members_is_one_file() -> None:
    packed = gzip.compress(PCAP[:5000]) + gzip.compress(PCAP[5000:]) + bytes(512)
    assert read(packed) == (EXPECTED, [])


def test_gzip_that_inflates_to_much_is_inflated_bit_by_bit() -> None:
    large = [(NOW, bytes(1_000_000))] * 30
    found, _ = read(gzip.compress(building.pcap(large, snap_length=1 << 24)))
    assert [len(packet.data) for packet in found] == [1_000_000] * 30


def test_rubbish_after_gzip_data_is_a_warning() -> None:
    found, notices = read(gzip.compress(PCAP) + b"rubbish")
    assert found == EXPECTED
    assert [notice.kind for notice in notices] == [WarningKind.TRAILING]


@pytest.mark.parametrize("flavour", [PCAP, PCAPNG], ids=["pcap", "pcapng"])
def test_gzip_cut_short_gives_what_came_before_and_a_warning(flavour: bytes) -> None:
    packed = gzip.compress(flavour)
    for cut in (len(packed) // 2, len(packed) - 9, len(packed) - 1):
        found, notices = read(packed[:cut])
        assert found == EXPECTED[: len(found)]
        assert len(found) > 100
        assert [notice.kind for notice in notices] == [WarningKind.CUT_SHORT]


def test_damaged_gzip_is_an_error() -> None:
    packed = bytearray(gzip.compress(PCAP))
    packed[-6] ^= 0xFF  # the check sum of the whole
    with pytest.raises(CaptureError, match="gzip data is damaged"):
        read(bytes(packed))


@pytest.mark.parametrize(
    ("start", "what"),
    [
        (b"", "it is empty"),
        (b"\xd4", "it begins with d4"),
        (b"#!/bin/sh", "it begins with 23 21"),
        (b"\x28\xb5\x2f\xfd....", "zstd"),
        (b"\xfd7zXZ\0...", "xz"),
        (b"BZh91AY", "bzip2"),
        (b"PK\x03\x04....", "zip"),
        (b"snoop\0\0\0....", "editcap"),
        (gzip.compress(b"", mtime=0), "it is empty"),
        (gzip.compress(b"hello", mtime=0), "it begins with 68"),
    ],
)
def test_what_is_no_capture_is_named_with_a_remedy(start: bytes, what: str, tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    path.write_bytes(start)
    with pytest.raises(CaptureError, match=what) as caught:
        list(read_packets(path))
    assert str(caught.value).startswith(f"{path}: ")
    assert caught.value.remedy in str(caught.value)


def test_a_path_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="No such file"):
        list(read_packets(tmp_path / "missing"))
    with pytest.raises(CaptureError, match="cannot be"):
        list(read_packets(tmp_path))


def test_a_file_is_closed_even_if_it_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(PCAP)
    packets = read_packets(path)
    next(packets)
    descriptors = Path("/proc/self/fd")
    assert any(os.path.realpath(each) == str(path) for each in descriptors.iterdir())
    packets.close()  # type: ignore[attr-defined]
    assert not any(os.path.realpath(each) == str(path) for each in descriptors.iterdir())


@given(st.binary(max_size=200), st.booleans())
def test_rubbish_is_never_more_than_a_capture_error(rubbish: bytes, is_packed: bool) -> None:
    for data in (gzip.compress(rubbish) if is_packed else rubbish, b"\x1f\x8b\x08" + rubbish):
        with contextlib.suppress(CaptureError):
            read(data)


# ------------------------------------------------------------------------------------------- other programs as judges


def converted(path: Path, *options: str) -> Iterator[Path]:
    """`path` in each of the formats that editcap writes and we read."""
    editcap = require("editcap", package="wireshark-common")
    for form in ("pcap", "nsecpcap", "pcapng", "modpcap"):
        target = path.with_name(f"{path.name}.{form}")
        subprocess.run([editcap, "-F", form, *options, path, target], check=True)
        yield target


@pytest.mark.real
def test_a_capture_is_the_same_in_every_format(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(PCAP)
    for target in converted(path):
        assert list(read_packets(target)) == EXPECTED, target
    for target in converted(path, "-s", "100"):
        cut = list(read_packets(target))
        assert [packet.data for packet in cut] == [packet.data[:100] for packet in EXPECTED]
        assert [packet.original_length for packet in cut] == [packet.original_length for packet in EXPECTED]


@pytest.mark.real
def test_merged_captures_have_several_interfaces(tmp_path: Path) -> None:
    mergecap = require("mergecap", package="wireshark-common")
    for name, link_type in (("a", 1), ("b", 101)):
        (tmp_path / name).write_bytes(building.pcap(PACKETS[:50], link_type=link_type))
    subprocess.run([mergecap, "-F", "pcapng", "-w", tmp_path / "both", tmp_path / "a", tmp_path / "b"], check=True)
    found = list(read_packets(tmp_path / "both"))
    assert sorted(packet.link_type for packet in found) == [1] * 50 + [101] * 50
    assert sorted(packet.ts_ns for packet in found) == sorted([stamp for stamp, _ in PACKETS[:50]] * 2)


@pytest.mark.real
def test_a_named_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(PCAPNG,))
    writer.start()
    assert list(read_packets(path)) == EXPECTED
    writer.join()
