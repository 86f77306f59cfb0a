"""Captures of real traffic decode to what tshark sees in them, but for what tshark is known to get wrong."""

from pathlib import Path

import pytest

from amqproxy.taps.record import Record
from tests.capture import shared_captures
from tests.capture.records import read_records

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not shared_captures.files(), reason="no shared captures: set AMQPROXY_SHARED_CAPTURES to their folder"
    ),
]

VERSIONS = {
    "0.0.9.1": "0-9-1",
    "1.1.8.0": "0-8",
    "1.1.0.9": "0-9",
    "1.1.0.10": "0-10",
    "1.1.0.11": "AMQP 1.1.0.11",
    "2.1.0.10": "AMQP 2.1.0.10",
    "1.2.0.10": "AMQP 1.2.0.10",
}
READ_AS_1_0 = {"..0.9": "0-9-1", "..1.9": "0-9-1 (Qpid)", "..2.0": "AMQP 0.2.0.0"}
"""Headers that tshark reads as if they were of 1.0."""
FAULTY = {
    ("40", "51"): "exchange.unbind-ok",
    ("10", "70"): "connection.update-secret",
    ("10", "71"): "connection.update-secret-ok",
}
"""Methods that tshark has no name for."""


def frames_decoded(records: list[Record]) -> list[tuple[object, ...]]:
    return [
        (record.stream, record.sender, record.type, record.channel, record.size, record.method)
        for record in records
        if record.protocol == "0-9-1" and record.type in ("method", "header", "body", "heartbeat")
    ]


def frames_expected(path: Path, records: list[Record]) -> list[tuple[object, ...]]:
    """The frames of 0-9-1 in tshark's view: it reads 0-8 as such, too, and whatever answers it."""
    clients = {record.stream: record.connection.split("-")[0].rpartition(":")[2] for record in records}
    strangers = {
        record.stream
        for record in records
        if record.type == "protocol-header" and record.sender == "client" and record.protocol not in ("0-9-1", "0-9")
    }
    frames: list[tuple[object, ...]] = []
    for row in shared_captures.rows(path):
        stream = int(row["stream"])
        if row["version"] != "0-9" or stream in strangers or row["kind"].startswith("type"):
            continue
        method = f"{row['class']}.{row['method']}" if row["kind"] == "method" else None
        method = FAULTY.get((row["class_id"], row["method_id"]), method)
        sender = "client" if row["src_port"] == clients[stream] else "server"
        frames.append((stream, sender, row["kind"], int(row["channel"]), int(row["length"]), method))
    return frames


@pytest.mark.parametrize("path", shared_captures.files(), ids=lambda path: path.stem)
def test_frames_are_those_of_tshark(path: Path) -> None:
    records = list(read_records(path))
    assert frames_decoded(records) == frames_expected(path, records)


@pytest.mark.parametrize("path", shared_captures.files(), ids=lambda path: path.stem)
def test_protocol_headers_are_those_of_tshark(path: Path) -> None:
    """tshark shows fewer: not those with a version it does not know."""
    protocols = {
        (record.stream, record.sender): record.protocol
        for record in read_records(path)
        if record.type == "protocol-header"
    }
    clients = {record.stream: record.connection.split("-")[0].rpartition(":")[2] for record in read_records(path)}
    for row in shared_captures.rows(path):
        if row["kind"] != "protocol-header":
            continue
        stream = int(row["stream"])
        protocol = protocols[stream, "client" if row["src_port"] == clients[stream] else "server"]
        if row["method"] == "..1.0":
            assert protocol.startswith("1.0") or protocol == "AMQP 1.1.0.11"
        elif row["method"] in READ_AS_1_0:
            assert protocol == READ_AS_1_0[row["method"]]
        else:
            assert protocol == VERSIONS[row["method"]]


@pytest.mark.parametrize("path", shared_captures.files(), ids=lambda path: path.stem)
def test_nothing_of_other_protocols_is_read_as_frames(path: Path) -> None:
    """Each byte of theirs is counted as not decoded; of 0-9-1 nothing is lost but what is broken.

    0-10 frames have an oracle of their own: tests/amqp010 compares them with tshark's.
    """
    for record in read_records(path):
        if record.type == "error":
            is_known_rubbish = path.stem == "rabbitmq3.10__version-negotiation" and record.code == 501
            assert record.protocol != "0-9-1" or is_known_rubbish
            assert record.lost
        elif record.type != "protocol-header":
            assert record.protocol in ("0-9-1", "0-10")


def test_the_eleven_negotiations() -> None:
    path = shared_captures.FOLDER / "rabbitmq3.10__version-negotiation.pcap"
    if not path.is_file():
        pytest.skip(f"{path.name} is missing")
    headers: dict[int, list[str]] = {}
    for record in read_records(path):
        if record.type == "protocol-header":
            headers.setdefault(record.stream, []).append(f"{record.sender}: {record.protocol}")
    assert headers == {
        0: ["client: 0-10", "server: 0-9-1"],
        1: ["client: 0-9"],
        2: ["client: 0-8"],
        3: ["client: AMQP 0.0.9.0", "server: 0-9-1"],
        4: ["client: 1.0", "server: 1.0"],
        5: ["client: 1.0 (SASL)", "server: 1.0 (SASL)"],
        6: ["client: 1.0 (TLS)", "server: 1.0 (SASL)"],
        7: ["client: unknown", "server: 0-9-1"],
        8: ["client: AMQP 0.0.9.2", "server: 0-9-1"],
        9: ["client: 0-9-1"],
        10: ["client: 0-9-1"],
    }
