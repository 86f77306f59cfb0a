"""Which files continue each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqproxy.capture.warnings import CaptureError
from amqproxy.pipeline.chains import Chain, chains, find

pytestmark = pytest.mark.once

R1, R2 = "/c/amqproxy-20261122T174700.123456Z-7.pcapng", "/c/amqproxy-20261122T184700.000000Z-7.pcapng"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ((R2 + ".partial", R1 + ".zst"), [Chain("/c/amqproxy-7", (R1 + ".zst", R2 + ".partial"), True)]),
        ((R1, R1.replace("-7.", "-8.")), [Chain("/c/amqproxy-7", (R1,), True), *chains([R1.replace("-7.", "-8.")])]),
        ((R1, R1.replace("/c/", "/d/")), [Chain("/c/amqproxy-7", (R1,), True), *chains([R1.replace("/c/", "/d/")])]),
        (
            ("/x.pcap10", "/x.pcap", "/x.pcap2.gz"),
            [Chain("/x.pcap", ("/x.pcap", "/x.pcap2.gz", "/x.pcap10"))],
        ),
        (("/x.pcap01", "/x.pcap00"), [Chain("/x.pcap", ("/x.pcap00", "/x.pcap01"))]),
        (
            ("/x_00002_20261122174700.pcapng", "/x_00001_20261122174600.pcapng"),
            [Chain("/x.pcapng", ("/x_00001_20261122174600.pcapng", "/x_00002_20261122174700.pcapng"))],
        ),
        (("/a.pcapng", "/b.pcapng"), [Chain("/a.pcapng", ("/a.pcapng",)), Chain("/b.pcapng", ("/b.pcapng",))]),
        (("/a\nb.pcap1", "/a\nb.pcap"), [Chain("/a\nb.pcap", ("/a\nb.pcap", "/a\nb.pcap1"))]),
        (("/no capture.bin",), [Chain("/no capture.bin", ("/no capture.bin",))]),
    ],
)
def test_files_that_continue_each_other_are_a_chain(files: tuple[str, ...], expected: list[Chain]) -> None:
    assert chains(files) == expected


def test_a_whole_directory_or_each_file_can_be_a_chain() -> None:
    assert chains(["/c/b.pcap", "/c/a.pcap"], "directory") == [Chain("/c", ("/c/a.pcap", "/c/b.pcap"))]
    assert [each.files for each in chains([R1, R2], "file")] == [(R1,), (R2,)]


def test_files_are_found_once_whatever_they_are_called(tmp_path: Path) -> None:
    odd = ["a b.pcap", "50%.pcap", "[x].pcap", "ünïcode-☃.pcapng", "y*.pcap"]
    for name in [*odd, "z.pcapng", "z.pcapng.zst", "notes.txt"]:
        (tmp_path / name).write_bytes(b"")
    everything = sorted(str(tmp_path / name) for name in [*odd, "z.pcapng"])
    assert sorted(find(tmp_path)) == everything
    assert sorted(find([str(tmp_path / "*.pcap*")])) == everything
    assert find([str(tmp_path / "[x].pcap"), str(tmp_path / "y*.pcap")]) == [
        str(tmp_path / "[x].pcap"),
        str(tmp_path / "y*.pcap"),
    ]
    assert find(str(tmp_path / "gone.pcap")) == [str(tmp_path / "gone.pcap")]
    with pytest.raises(CaptureError, match="no file matches"):
        find(str(tmp_path / "nothing*.pcap"))


def test_all_files_may_be_one_chain_with_the_name_of_the_first() -> None:
    (chain,) = chains(["/x/b.pcap10", "/x/b.pcap2.gz", "/x/a.pcapng"], "one")
    assert (chain.name, chain.files) == ("/x/a.pcapng", ("/x/a.pcapng", "/x/b.pcap2.gz", "/x/b.pcap10"))
    assert chains([], "one") == []
