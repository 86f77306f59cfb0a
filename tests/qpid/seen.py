"""Checks that what passed over AMQP 0-10 was seen live as captures of it are: printed, recorded, counted."""

from __future__ import annotations

import json
import re
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import records_of
from amqproxy.taps.record import Record
from tests.real.poll import until
from tests.real.proxy import Program

LEFT_OUT = ("stream", "connection", "ts_ns", "leg")


def shown(record: dict[str, Any]) -> str:
    return json.dumps({name: value for name, value in record.items() if name not in LEFT_OUT}, sort_keys=True)


def decoded(directory: Path) -> list[Record]:
    files = sorted(directory.glob("*.pcapng*"))
    return [each for decoded in read_decoded(files, leg="client") for each in records_of(decoded)]


def counted(port: int) -> dict[str, str]:
    """The samples of /metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        page = answer.read().decode()
    return dict(re.findall(r"^amqproxy_(\w+(?:{[^}]*})?) ([\d.e+]+)$", page, re.MULTILINE))


def check_counted(port: int) -> None:
    """What /metrics has of messages, once all connections have ended."""
    until(lambda: float(counted(port)["connections"]) == 0, "the end of all connections")
    found = counted(port)
    published = float(found["messages_published_total"])
    assert published > 5
    assert float(found["messages_delivered_total"]) > 5
    assert float(found["messages_acked_total"]) > 3
    assert 0 < float(found["messages_confirmed_total"]) <= published
    assert float(found["published_bytes_sum"]) > 100_000
    assert float(found["channels_opened_total"]) > 5
    for each in ("messages_unconfirmed", "messages_unacked", "consumers", "channels"):
        assert float(found[each]) == 0, each


def check_seen(program: Program, directory: Path) -> None:
    """All that was printed was recorded, and the other way round; none of it is wrong."""
    program.terminate()
    assert program.wait() == 0
    printed = [json.loads(line) for line in program.records.read_text().splitlines()]
    recorded = [msgspec.json.decode(each.to_json()) for each in decoded(directory)]
    assert not [each for each in printed if each["type"] == "error"]
    methods = Counter(each.get("method") for each in printed)
    assert methods["message.transfer"] > 10
    assert methods["session.attached"] > 0
    assert {each["protocol"] for each in printed} == {"0-10"}
    by_connection = [sorted(Counter(each["connection"] for each in found).values()) for found in (printed, recorded)]
    assert by_connection[0] == by_connection[1]
    assert Counter(map(shown, recorded)) == Counter(map(shown, printed))
    assert "Traceback" not in program.log
    assert "guest" in program.records.read_text()
