"""Capture files: formats, sources, and errors about files that are none."""

import contextlib
import gzip
import io
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.capture import byte_window, compression
from amqproxy.capture.compression import zstd
from amqproxy.capture.files import captures_in, read_packets
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


def packed_by(form: str) -> Callable[[bytes], bytes]:
    return {"gzip": lambda data: gzip.compress(data, mtime=0), "zstd": zstd.compress, "lz4": lz4.frame.compress}[form]


PACKED = {form: packed_by(form) for form in ("gzip", "zstd", "lz4")}
FORMS: dict[str, Callable[[bytes], bytes]] = {"plain": lambda data: data, **PACKED}


def read(data: bytes) -> tuple[list[Packet], list[CaptureWarning]]:
    notices: list[CaptureWarning] = []
    return list(read_packets(io.BytesIO(data), notices.append)), notices


@pytest.mark.parametrize("flavour", [PCAP, PCAPNG], ids=["pcap", "pcapng"])
@pytest.mark.parametrize("form", FORMS)
def test_flavours_are_known_by_their_bytes(tmp_path: Path, flavour: bytes, form: str) -> None:
    path = tmp_path / "capture.txt"
    path.write_bytes(FORMS[form](flavour))
    assert list(read_packets(path)) == EXPECTED
    assert list(read_packets(str(path))) == EXPECTED


@pytest.mark.parametrize("step", [1, 7, 4096, 1 << 20])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("flavour", [PCAP, PCAPNG], ids=["pcap", "pcapng"])
def test_how_the_bytes_come_does_not_matter(flavour: bytes, form: str, step: int) -> None:
    packed = FORMS[form](building.pcap(PACKETS[:40]) if step == 1 else flavour)
    found = list(read_packets(Trickle(packed, step)))  # type: ignore[arg-type]
    assert found == EXPECTED[: 40 if step == 1 else None]


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
    monkeypatch.setattr(compression, "CHUNK_BYTES", 8192)
    window: list[int] = []
    before = byte_window.ByteWindow.need

    def measured(self: byte_window.ByteWindow, count: int) -> bool:
        answer = before(self, count)
        window.append(len(self.buffer))
        return answer

    monkeypatch.setattr(byte_window.ByteWindow, "need", measured)
    for form in FORMS.values():
        for flavour in (PCAP, PCAPNG):
            list(read_packets(io.BytesIO(form(flavour))))
    assert max(window) <= 128 * 1024 + 8192 + 1600  # zstd gives no less than a block


@pytest.mark.parametrize("form", PACKED)
def test_compressed_data_of_several_members_is_one_file(form: str) -> None:
    pack = PACKED[form]
    packed = pack(PCAP[:5000]) + pack(PCAP[5000:5001]) + pack(PCAP[5001:])
    for step in (1, 5, 4096, 1 << 20):
        assert list(read_packets(Trickle(packed, step))) == EXPECTED  # type: ignore[arg-type]


def test_what_pads_gzip_data_or_comes_before_zstd_data_is_passed_over() -> None:
    assert read(gzip.compress(PCAP) + bytes(512)) == (EXPECTED, [])
    skippable = b"\x5a\x2a\x4d\x18\x04\0\0\0size"  # as pzstd writes it
    assert read(skippable + zstd.compress(PCAP) + skippable) == (EXPECTED, [])


@pytest.mark.parametrize("form", PACKED)
def test_what_inflates_to_much_is_inflated_bit_by_bit(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    large = [(NOW, bytes(1_000_000))] * 30
    sizes: list[int] = []
    chunks = compression.Decompression.chunks

    def measured(self: compression.Decompression, packed: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks(self, packed):
            sizes.append(len(chunk))
            yield chunk

    monkeypatch.setattr(compression.Decompression, "chunks", measured)
    found, _ = read(PACKED[form](building.pcap(large, snap_length=1 << 24)))
    assert [len(packet.data) for packet in found] == [1_000_000] * 30
    assert max(sizes) <= compression.CHUNK_BYTES


@pytest.mark.parametrize("rubbish", [b"rubbish", b"\1"])
@pytest.mark.parametrize("form", PACKED)
def test_rubbish_after_compressed_data_is_a_warning(form: str, rubbish: bytes) -> None:
    found, notices = read(PACKED[form](PCAP) + rubbish)
    assert found == EXPECTED
    assert [notice.kind for notice in notices] == [WarningKind.TRAILING]
    assert form in notices[0].text


@pytest.mark.parametrize("flavour", [PCAP, PCAPNG], ids=["pcap", "pcapng"])
@pytest.mark.parametrize("form", PACKED)
def test_compressed_data_cut_short_gives_what_came_before_and_a_warning(form: str, flavour: bytes) -> None:
    packed = PACKED[form](flavour)
    for cut in (len(packed) * 2 // 3, len(packed) - 9, len(packed) - 1):
        found, notices = read(packed[:cut])
        assert found == EXPECTED[: len(found)]
        assert len(found) > 100
        assert [notice.kind for notice in notices] == [WarningKind.CUT_SHORT]


@pytest.mark.parametrize("form", PACKED)
def test_damaged_data_is_an_error_after_what_came_before(form: str) -> None:
    """Nothing is lost but what the damaged block, or slice of gzip data, held."""
    noisy = [(NOW + index, random.Random(index).randbytes(1000)) for index in range(3000)]
    packed = bytearray(PACKED[form](building.pcap(noisy)))
    at = len(packed) // 2
    packed[at : at + 200_000] = bytes(200_000)  # of noise, no format has a shorter form
    found: list[Packet] = []
    with pytest.raises(CaptureError, match="damaged") as caught:
        found.extend(read_packets(io.BytesIO(bytes(packed))))
    good = [packet for packet, (_, data) in zip(found, noisy, strict=False) if packet.data == data]
    assert len(good) >= 1300
    assert caught.value.offset > 1_300_000


def test_a_missing_library_is_named_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    with pytest.raises(CaptureError, match="the package lz4 is not installed") as caught:
        read(PACKED["lz4"](PCAP))
    assert "pip install 'amqproxy[captures]'" in caught.value.remedy
    assert "lz4 -dc FILE" in caught.value.remedy


@pytest.mark.parametrize("level", [-5, 1, 19])
@pytest.mark.parametrize(
    "options", [{}, {zstd.CompressionParameter.checksum_flag: 1}, {zstd.CompressionParameter.content_size_flag: 0}]
)
def test_zstd_data_of_every_kind(level: int, options: dict[int, int]) -> None:
    chance = random.Random(1)
    data = [chance.randbytes(300_000), bytes(3_000_000), PCAP * 3, b""]
    for each in data:
        packed = zstd.compress(each, options={zstd.CompressionParameter.compression_level: level} | options)
        for step in (1 << 20, 1000):
            pieces = iter([packed[at : at + step] for at in range(0, len(packed), step)])
            found = compression.Decompression(compression.ZSTD)
            assert b"".join(found.chunks(pieces)) == each
            assert not found.is_cut


@pytest.mark.parametrize(
    ("start", "what"),
    [
        (b"", "it is empty"),
        (b"\xd4", "it begins with d4"),
        (b"#!/bin/sh", "it begins with 23 21"),
        (b"\x28\xb5\x2f\xfdrubbish, longer than a head", "its zstd data is damaged"),
        (b"\x04\x22\x4d\x18rubbish, longer than a head", "its lz4 data is damaged"),
        (b"\x02\x21\x4c\x18....", "legacy"),
        (b"\xfd7zXZ\0...", "xz"),
        (b"BZh91AY", "bzip2"),
        (b"PK\x03\x04....", "zip"),
        (b"snoop\0\0\0....", "editcap"),
        (gzip.compress(b"", mtime=0), "it is empty"),
        (gzip.compress(b"hello", mtime=0), "it begins with 68"),
        (zstd.compress(b"hello"), "it begins with 68"),
        (lz4.frame.compress(b""), "it is empty"),
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


def test_a_file_is_closed_even_if_it_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(PCAP)
    packets = read_packets(path)
    next(packets)
    descriptors = Path("/proc/self/fd")
    assert any(os.path.realpath(each) == str(path) for each in descriptors.iterdir())
    packets.close()  # type: ignore[attr-defined]
    assert not any(os.path.realpath(each) == str(path) for each in descriptors.iterdir())


@given(st.binary(max_size=200), st.sampled_from(sorted(FORMS)))
def test_rubbish_is_never_more_than_a_capture_error(rubbish: bytes, form: str) -> None:
    magics = [min(each.magics) for each in compression.COMPRESSIONS]  # of two, a frame to be skipped
    for data in (FORMS[form](rubbish), *(magic + rubbish for magic in (*magics, b"\x28\xb5\x2f\xfd"))):
        with contextlib.suppress(CaptureError):
            read(data)


# -------------------------------------------------------------------------------------------------------- directories


def ring(directory: Path, names: list[str]) -> None:
    """Files of three packets each."""
    for number, name in enumerate(names):
        data = building.pcap(PACKETS[3 * number : 3 * number + 3])
        form = {".gz": "gzip", ".zst": "zstd", ".lz4": "lz4"}.get(Path(name).suffix, "plain")
        (directory / name).write_bytes(FORMS[form](data))


def test_a_directory_is_its_captures_in_the_order_of_their_names(tmp_path: Path) -> None:
    names = ["x1.pcap.gz", "x2.pcapng.zst", "x10.cap.lz4", "x11.pcap", "x11.pcap2", "x11.pcap12", "x12.pcapng.partial"]
    ring(tmp_path, names)
    for other in (".hidden.pcap", "x.pcap.jsonl", "notes.txt", "x13.pcap.zst.partial", "x11.pcap.zst", "x10.pcap.md5"):
        (tmp_path / other).write_bytes(b"no capture")
    (tmp_path / "older.pcapng").mkdir()
    assert [path.name for path in captures_in(tmp_path)] == names
    assert list(read_packets(tmp_path)) == EXPECTED[: 3 * len(names)]
    assert list(read_packets([tmp_path, io.BytesIO(PCAP)])) == EXPECTED[: 3 * len(names)] + EXPECTED


def test_a_line_break_in_a_name_does_not_hide_a_capture(tmp_path: Path) -> None:
    ring(tmp_path, ["a\nb.pcap"])
    assert [path.name for path in captures_in(tmp_path)] == ["a\nb.pcap"]


def test_a_directory_without_captures_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(CaptureError, match="there are no captures in this directory"):
        list(read_packets(tmp_path))


def test_a_directory_may_change_while_it_is_read(tmp_path: Path) -> None:
    """A ring goes on: its oldest files go, its newest is finished and then compressed, the next is empty as yet."""
    ring(tmp_path, ["a.pcapng", "b.pcapng", "c.pcapng.partial", "d.pcapng.partial"])
    (tmp_path / "e.pcapng").touch()
    (tmp_path / "f.pcapng").write_bytes(PCAP[:10])
    notices: list[CaptureWarning] = []
    packets = read_packets(tmp_path, notices.append)
    next(packets)
    (tmp_path / "b.pcapng").unlink()
    (tmp_path / "c.pcapng.partial").rename(tmp_path / "c.pcapng")
    (tmp_path / "d.pcapng.zst").write_bytes(zstd.compress((tmp_path / "d.pcapng.partial").read_bytes()))
    (tmp_path / "d.pcapng.partial").unlink()
    assert list(packets) == EXPECTED[1:3] + EXPECTED[6:12]
    assert [(notice.kind, Path(notice.file).name, notice.offset) for notice in notices] == [
        (WarningKind.GONE, "b.pcapng", -1),
        (WarningKind.CUT_SHORT, "e.pcapng", -1),
        (WarningKind.CUT_SHORT, "f.pcapng", -1),
    ]


def test_what_is_read_of_files_is_counted_as_it_is_on_the_disk(tmp_path: Path) -> None:
    ring(tmp_path, ["a.pcapng.gz", "b.pcapng"])
    counts: list[int] = []
    list(read_packets([tmp_path, io.BytesIO(PCAP)], on_read=counts.append))
    assert sum(counts) == sum(path.stat().st_size for path in tmp_path.iterdir()) + len(PCAP)


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
