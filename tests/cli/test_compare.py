"""`amqproxy compare`."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pika
import pytest

from amqproxy.cli.failure import FAILED, MISUSED
from amqproxy.comparison import command_store
from amqproxy.testing.local_broker import LocalBroker
from tests.amqp010 import recorded
from tests.cli.outcome import Amqproxy

CAPTURES = Path(__file__).parent.parent.parent / "captures"
CONFIRMS, REUSED = (str(CAPTURES / f"{name}.pcapng") for name in ("confirms", "confirms.ports-reused"))
LARGE = str(CAPTURES / "consume-large.pcapng")


def test_the_same(amqproxy: Amqproxy) -> None:
    code, out, err = amqproxy("compare", LARGE, str(CAPTURES / "consume-large.shuffled.pcapng"))
    assert (code, err) == (0, "")
    assert out.endswith("A: 1 connection, 18 commands\nB: 1 connection, 18 commands\nno difference\n")


def test_different(amqproxy: Amqproxy) -> None:
    code, out, err = amqproxy("compare", CONFIRMS, REUSED)
    assert (code, err) == (FAILED, "amqproxy: compare: they differ\n")
    assert out.startswith("A none ↔ B #1 ")
    assert out.endswith("1 difference: 1 extra\n")


def test_as_json(amqproxy: Amqproxy) -> None:
    code, out, _ = amqproxy("compare", "--json", CONFIRMS, REUSED)
    reports = [json.loads(line) for line in out.splitlines()]
    assert code == FAILED
    assert [each["report"] for each in reports if each["report"] != "latency"] == [
        "connection",
        "connection",
        "difference",
        "summary",
    ]
    assert reports[-1]["differences"] == {"missing": 0, "extra": 1, "moved": 0, "changed": 0}
    (publishes,) = [each for each in reports if each.get("kind") == "basic.publish"]
    assert publishes["a"] == publishes["b"]
    assert publishes["a"]["count"] == 3


def test_with_a_filter_and_without_fields(amqproxy: Amqproxy) -> None:
    code, out, _ = amqproxy(
        "compare", CONFIRMS, str(CAPTURES / "publish-get-ack.pcapng"), "--filter", "method == 'tx.select'"
    )
    assert code == 0
    assert "A: 1 connection, 0 commands" in out
    assert amqproxy("compare", CONFIRMS, CONFIRMS, "--ignore", "body", "--ignore", "properties.timestamp").code == 0


def test_a_disk_that_is_full(amqproxy: Amqproxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_store, "_SCHEMA", f"PRAGMA max_page_count=8; {command_store._SCHEMA}")
    code, _, err = amqproxy("compare", CONFIRMS, REUSED)
    assert code == FAILED
    assert err.startswith("amqproxy: compare: database or disk is full: decoded captures are kept")


def test_misuse(amqproxy: Amqproxy) -> None:
    assert amqproxy("compare", "-", "-").code == MISUSED
    assert amqproxy("compare", CONFIRMS, CONFIRMS, "--limit", "-1").code == MISUSED
    assert amqproxy("compare", CONFIRMS, CONFIRMS, "--filter", "no such").code == MISUSED
    assert amqproxy("compare", CONFIRMS).code == MISUSED
    code, _, err = amqproxy("compare", CONFIRMS, "missing.pcap")
    assert code == FAILED
    assert "missing.pcap" in err


def test_two_brokers(amqproxy: Amqproxy) -> None:
    with LocalBroker() as one, LocalBroker() as other:
        assert amqproxy("compare", "--replay", LARGE, one.url, other.url).code == 0
        with pika.BlockingConnection(pika.URLParameters(other.url)) as connection:
            connection.channel().queue_declare("missing")  # what the recorded client asks for, and does not get
        channel_error = str(CAPTURES / "channel-error.pcapng")
        code, out, err = amqproxy("compare", "--replay", channel_error, one.url, other.url, "--json")
    assert (code, err) == (FAILED, "amqproxy: compare: they differ\n")
    found = [each for each in map(json.loads, out.splitlines()) if each["report"] == "difference"]
    changes = {each["field"]: each for difference in found for each in difference.get("changes", ())}
    assert (changes["outcome"]["before"], changes["outcome"]["after"]) == ("unanswered", "answered")


def test_captures_of_0_10(amqproxy: Amqproxy) -> None:
    types, requests = (str(recorded.capture(name)) for name in (recorded.QPIDD, "brokerj9.2__jms-010-request-reply"))
    code, out, _ = amqproxy("compare", types, types)
    assert code == 0
    assert out.endswith("A: 1 connection, 55 commands\nB: 1 connection, 55 commands\nno difference\n")
    code, out, _ = amqproxy("compare", "--json", "--filter", "method == 'message.transfer'", types, requests)
    reports = [json.loads(line) for line in out.splitlines()]
    assert code == FAILED
    assert reports[-1]["connections"] == {"a": 1, "b": 2}
    assert {each["method"] for each in reports if each.get("type") in ("publish", "deliver")} == {"message.transfer"}


def test_two_brokers_with_0_10(amqproxy: Amqproxy) -> None:
    with LocalBroker() as one, LocalBroker() as other:
        capture = recorded.capture("brokerj9.2__jms-010-tx")
        code, out, _ = amqproxy("compare", one.url, other.url, "--replay", str(capture))
    assert code == 0
    assert "tx.commit                         3 " in out
    assert out.endswith("no difference\n")


def test_two_brokers_by_standard_input(amqproxy: Amqproxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read once, and played twice. Its client has a frame_max that RabbitMQ 4.1 and later refuse."""
    with LocalBroker("3.10") as one, LocalBroker("3.10") as other, Path(LARGE).open("rb") as file:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=file))
        code, out, err = amqproxy("compare", "--replay", "-", one.url, other.url, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out.splitlines()[-1])["connections"] == {"a": 1, "b": 1}


def test_brokers_that_are_not_there(amqproxy: Amqproxy) -> None:
    assert amqproxy("compare", "--replay", LARGE, "amqp://127.0.0.1:1", "amqp://127.0.0.1:1").code == FAILED
    assert amqproxy("compare", "--replay", LARGE, LARGE, LARGE).code == MISUSED
    assert amqproxy("compare", "--replay", LARGE, "amqp://a", "amqp://b", "--speed", "0").code == MISUSED
