"""Captures and tables in S3, of a server on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from amqproxy.capture.warnings import CaptureError
from amqproxy.pipeline import frame_table, storage
from amqproxy.pipeline.chains import chains, find
from amqproxy.pipeline.ledger import Ledger
from amqproxy.pipeline.reading import Reader
from amqproxy.pipeline.source import SourceOptions, partitions_of, parts_of
from tests.pipeline import s3_job
from tests.pipeline.known_tables import HOUR, START_NS, write_known_tables
from tests.real.require import require, require_module

pytestmark = pytest.mark.once

CAPTURES = Path(__file__).parents[2] / "captures"

NAMES = ("confirms.pcapng", "publish-get-ack.pcapng", "login-refused.octets.pcapng.gz")


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """`s3://traffic`, with some captures in it, at the place that the environment says."""
    server = require_module("moto.server", package="'moto[s3,server]'").ThreadedMotoServer(
        "127.0.0.1", 0, verbose=False
    )
    server.start()
    host, port = server.get_host_and_port()
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
    for name, value in {
        **keys,
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    files = storage.place("s3://traffic").files
    _make_bucket(f"http://{host}:{port}/traffic")
    for name in NAMES:
        with files.open_output_stream(f"traffic/captures/{name}", compression=None) as stream:
            stream.write((CAPTURES / name).read_bytes())
    yield "s3://traffic"
    server.stop()


def _make_bucket(url: str) -> None:
    from urllib.request import Request, urlopen

    urlopen(Request(url, method="PUT"), timeout=60).close()


def test_captures_are_found_and_read(bucket: str) -> None:
    assert find(f"{bucket}/captures") == sorted(f"{bucket}/captures/{name}" for name in NAMES)
    assert find(f"{bucket}/captures/*confirms*") == [f"{bucket}/captures/confirms.pcapng"]
    assert find(f"{bucket}/captures/confirms.pcapng") == [f"{bucket}/captures/confirms.pcapng"]
    for nothing in ("none", "captures/*.cap"):
        with pytest.raises(CaptureError):
            find(f"{bucket}/{nothing}")
    with storage.opened(f"{bucket}/captures/{NAMES[-1]}") as file:
        assert file.read() == (CAPTURES / NAMES[-1]).read_bytes()
    with pytest.raises(FileNotFoundError):
        storage.state_of(f"{bucket}/captures/none.pcapng")


def test_tables_are_read_without_spark(bucket: str, tmp_path: Path) -> None:
    write_known_tables(tmp_path)
    files = storage.place(bucket).files
    for each in tmp_path.rglob("*"):
        if each.is_file():
            with files.open_output_stream(f"traffic/tables/{each.relative_to(tmp_path)}") as stream:
                stream.write(each.read_bytes())
    reader = Reader(f"{bucket}/tables")
    assert reader.span(["messages"]) == (START_NS, START_NS + 3 * HOUR)
    assert Reader(f"{bucket}/none").names() == []


def test_frames_are_written_there(bucket: str) -> None:
    tables = f"{bucket}/tables of frames"  # the server keeps what other tests have written
    options = SourceOptions(paths=(f"{bucket}/captures",))
    files = find(options.paths)
    with Ledger(tables) as ledger:
        root = f"{ledger.path}/{ledger.staging('frames')}"
        partitions = partitions_of(parts_of(chains(files), options))
        for _ in range(2):  # as a task that is tried again
            complete = list(frame_table._write(options, root, ledger.next_batch, partitions))
        ledger.only_complete("frames", complete)
        done = ledger.commit("ingest", ["frames"], captures=files)
        lines = [(CAPTURES / name.removesuffix(".gz")).with_suffix(".jsonl").read_text().splitlines() for name in NAMES]
        assert sum(map(ledger.rows, done.files["frames"])) == sum(map(len, lines))
        assert len(done.files["frames"]) == len(complete)
    assert Reader(tables).names() == ["frames"]


def test_settings_of_spark() -> None:
    assert storage.spark_settings("/captures", "tables") == {}
    settings = storage.spark_settings("s3://a/b", environment={"AWS_ENDPOINT_URL": "http://here:1", "AWS_REGION": "x"})
    assert settings["spark.hadoop.fs.s3a.endpoint"] == "http://here:1"
    assert settings["spark.hadoop.fs.s3a.connection.ssl.enabled"] == "false"
    assert storage.spark_path("s3://a/b") == "s3a://a/b"
    assert storage.absolute("s3://a/b") == "s3://a/b"
    assert storage.absolute("tables") == str(Path.cwd() / "tables")


@pytest.mark.soak  # it fetches 30 MB of jars
@pytest.mark.timeout(900)
def test_captures_become_tables_there(bucket: str, tmp_path: Path) -> None:
    require("java", package="openjdk-17-jre-headless")
    command = (sys.executable, s3_job.__file__, f"{bucket}/captures", f"{bucket}/tables")
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    expected: Counter[str] = Counter()
    for name in NAMES:
        lines = (CAPTURES / name.removesuffix(".gz")).with_suffix(".jsonl").read_text().splitlines()
        expected.update(json.loads(line)["type"] for line in lines)
    assert found == {"counts": expected, "new": [], "known": len(NAMES)}
