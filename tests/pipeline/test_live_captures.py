"""The captures of a directory that `run --live` takes: those that are closed, once."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from amqproxy.pipeline.duck import DuckSession
from amqproxy.pipeline.jobs import Done, Settings
from amqproxy.pipeline.ledger import Ledger
from amqproxy.pipeline.live import Live, Pace, closed_captures
from tests.capture import golden

pytestmark = pytest.mark.once

CAPTURE = golden.FOLDER / "confirms.pcapng"


def written(directory: Path, *names: str) -> None:
    """Files with these names, each modified a second after the one before."""
    for second, name in enumerate(names):
        shutil.copyfile(CAPTURE, directory / name)
        os.utime(directory / name, (second, second))


@pytest.mark.parametrize(
    ("names", "closed"),
    [
        ([], []),
        (["x.pcap"], ["x.pcap"]),
        (["x.pcap", "x.pcap1", "x.pcap2"], ["x.pcap", "x.pcap1"]),
        (["x.pcap1", "x.pcap2", "x.pcap0"], ["x.pcap1", "x.pcap2"]),
        (["x.pcap", "x.pcap1", "x.pcap2.gz"], ["x.pcap", "x.pcap1", "x.pcap2.gz"]),
        (["x_00001_20261122174700.pcapng"], []),
        (["x_00001_20261122174700.pcapng", "x_00002_20261122174800.pcapng"], ["x_00001_20261122174700.pcapng"]),
        (
            ["amqproxy-20261122T174700.123456Z-1.pcapng", "amqproxy-20261122T174800.123456Z-1.pcapng.partial"],
            ["amqproxy-20261122T174700.123456Z-1.pcapng"],
        ),
    ],
)
def test_the_file_that_is_being_written_waits(tmp_path: Path, names: list[str], closed: list[str]) -> None:
    written(tmp_path, *names)
    found = closed_captures([str(tmp_path / name) for name in names])
    assert {Path(each).name for each in found} == set(closed)


def test_a_ring_is_ingested_as_it_grows_and_changes_are_told_once(tmp_path: Path) -> None:
    captures, batches, changed = tmp_path / "captures", list[list[Done]](), list[str]()
    captures.mkdir()
    with closing(DuckSession()) as duck, Ledger(str(tmp_path / "tables")) as ledger:
        live = Live(
            duck,  # type: ignore[arg-type]
            ledger,
            str(captures),
            Settings(),
            Pace(),
            lambda epoch, done: batches.append(done),
            changed.append,
        )
        written(captures, "x.pcap1", "x.pcap2")
        live._take(0)
        written(captures, "x.pcap1", "x.pcap2", "x.pcap3")
        live._take(1)
        assert [done[0].captures for done in batches] == [1, 1]
        assert changed == []
        (captures / "x.pcap1").write_bytes(CAPTURE.read_bytes()[:-40])
        live._take(2)
        live._take(3)
        assert changed == [str(captures / "x.pcap1")]
