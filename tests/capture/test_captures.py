"""The golden corpus: each capture of `captures/` decodes to the records beside it."""

import io
import json
import subprocess
from pathlib import Path

import pytest

from amqproxy.amqp091.methods import BY_NAME
from amqproxy.capture.files import read_packets
from tests.capture import golden, mutate_captures
from tests.real.require import require

CAPTURES = golden.captures()
KINDS = {"method": 1, "header": 2, "body": 3, "heartbeat": 8}


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name.partition(".pcap")[0])
def test_each_capture_decodes_to_its_records(path: Path) -> None:
    assert golden.decoded(path) == golden.records_path(path).read_text().splitlines()


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name.partition(".pcap")[0])
def test_each_capture_has_its_messages(path: Path) -> None:
    assert golden.messages(path) == golden.messages_path(path).read_text().splitlines()


def test_packets_that_were_captured_late_change_no_message() -> None:
    shuffled, true = (_but_for_times(f"consume-large{each}.messages.jsonl") for each in (".shuffled", ""))
    assert shuffled == true


def _but_for_times(name: str) -> list[dict[str, object]]:
    messages = [json.loads(line) for line in (golden.FOLDER / name).read_text().splitlines()]
    assert all(each.get("seconds", 0) >= 0 for each in messages)
    return [{name: value for name, value in each.items() if name not in ("ts_ns", "seconds")} for each in messages]


def test_nothing_is_without_its_other_half() -> None:
    paths = {each(path) for path in CAPTURES for each in (golden.records_path, golden.messages_path)}
    assert paths == set(golden.FOLDER.glob("*.jsonl"))


@pytest.mark.parametrize("name", mutate_captures.MUTATIONS)
def test_a_mutation_is_what_its_script_makes(name: str) -> None:
    path, data = mutate_captures.made(name)
    assert list(read_packets(path)) == list(read_packets(io.BytesIO(data)))


@pytest.mark.parametrize("name", mutate_captures.UNCHANGED)
def test_what_happens_to_packets_does_not_change_the_frames(name: str) -> None:
    before, after = (
        [frame_of(line) for line in golden.FOLDER.joinpath(f"{each}.jsonl").read_text().splitlines()]
        for each in (name.partition(".")[0], name)
    )
    for side in ("client", "server"):
        assert [frame for frame in after if frame["from"] == side] == [
            frame for frame in before if frame["from"] == side
        ]
    assert len(before) == len(after)


def frame_of(line: str) -> dict[str, object]:
    """A record without where and when."""
    record: dict[str, object] = json.loads(line)
    return {name: value for name, value in record.items() if name not in ("ts_ns", "connection", "stream")}


@pytest.mark.real
@pytest.mark.once
@pytest.mark.parametrize("path", [path for path in CAPTURES if path.name.count(".") == 1], ids=lambda path: path.stem)
def test_tshark_sees_the_same_frames(path: Path) -> None:
    """Kind, channel and size of every frame, and the method of each, in the same order."""
    lines = golden.records_path(path).read_text().splitlines()
    records = [record for line in lines if (record := json.loads(line))["type"] in KINDS]
    port = json.loads(lines[0])["connection"].rpartition(":")[2]
    fields = ["amqp.type", "amqp.channel", "amqp.length", "amqp.method.class", "amqp.method.method"]
    command = [require("tshark"), "-2", "-r", path, "-d", f"tcp.port=={port},amqp", "-T", "fields"]
    for field in fields:
        command += ["-e", field]
    seen: list[list[int]] = [[] for _ in fields]
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        for column, text in zip(seen, line.split("\t"), strict=True):
            column += [int(number) for number in text.split(",") if number]
    frames = list(zip(*seen[:3], strict=True))
    assert frames == [(KINDS[record["type"]], record["channel"], record["size"]) for record in records]
    methods = [BY_NAME[record["method"]] for record in records if record["type"] == "method"]
    assert list(zip(*seen[3:], strict=True)) == [(method.class_id, method.method_id) for method in methods]
