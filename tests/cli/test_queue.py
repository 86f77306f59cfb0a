"""`amqproxy queue …`, with the integrated broker."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from amqproxy.testing.local_broker import LocalBroker
from tests.cli.outcome import Amqproxy
from tests.cli.process import start
from tests.workbench.bench_queue import BenchAt


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker("4.3") as found:
        yield found


@pytest.fixture
def bench(broker: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BenchAt:
    monkeypatch.setenv("AMQPROXY_AUDIT", str(tmp_path / "audit.jsonl"))
    return BenchAt(int(broker.address.rpartition(":")[2]), tmp_path)


def url(bench: BenchAt) -> str:
    return f"amqp://guest:guest@127.0.0.1:{bench.port}"


def dead(bench: BenchAt, *bodies: bytes) -> tuple[str, str]:
    """A queue with dead letters, and the queue in which they died."""
    letters = bench.declare()
    work = bench.declare(x_dead_letter_exchange="", x_dead_letter_routing_key=letters)
    bench.publish(work, bodies, headers={"a": 1}, content_type="application/json")
    with bench.channel() as channel:
        while (got := channel.basic_get(work))[0] is not None:
            channel.basic_reject(got[0].delivery_tag, requeue=False)
    return letters, work


def audit(tmp_path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (tmp_path / "audit.jsonl").read_bytes().splitlines()]


def test_peek_shows_messages_as_text_and_says_before_what_it_does(amqproxy: Amqproxy, bench: BenchAt) -> None:
    queue = bench.declare()
    bench.publish(queue, [b'{"n": 1}', b"\xff"], content_type="application/json", headers={"a": [1]})
    outcome = amqproxy("queue", "peek", url(bench), queue)
    assert outcome.code == 0
    assert f"queue {queue!r}: 2 messages, 0 consumers" in outcome.err
    assert "No return counts" in outcome.err
    lines = outcome.out.splitlines()
    assert lines[0] == f"#0 exchange '' routing key {queue!r}: 8 bytes, json"
    assert lines[1:6] == ["  content_type: application/json", "  headers.a: [1]", "    {", '      "n": 1', "    }"]
    assert lines[6].endswith("1 bytes, hex")


def test_peek_prints_lines_that_fill_reads(amqproxy: Amqproxy, bench: BenchAt, tmp_path: Path) -> None:
    queue, target = bench.numbered(5), bench.declare()
    outcome = amqproxy(
        "queue", "peek", url(bench), queue, "--json", "--where", "headers.n > 1", "--limit", "2", "--form", "hex"
    )
    assert [json.loads(line)["position"] for line in outcome.out.splitlines()] == [2, 3]
    (tmp_path / "some.jsonl").write_text(outcome.out)
    filled = amqproxy("queue", "fill", url(bench), target, str(tmp_path / "some.jsonl"))
    assert (filled.code, filled.out.splitlines()[0]) == (0, f"2 published to queue {target!r}; 2 of 2 looked at")
    assert bench.bodies(target) == [b"2", b"3"]


def test_a_window_that_is_full_is_said(amqproxy: Amqproxy, bench: BenchAt) -> None:
    outcome = amqproxy("queue", "peek", url(bench), bench.numbered(5), "--where", "headers.n > 3", "--window", "2")
    assert (outcome.code, outcome.out) == (1, "")
    assert "3 messages behind it were not looked at (--window)" in outcome.err


def test_dead_letters_come_back(amqproxy: Amqproxy, bench: BenchAt, tmp_path: Path) -> None:
    letters, work = dead(bench, b"1", b"2")
    bench.publish(letters, [b"stranger"], message_id="s")
    outcome = amqproxy("queue", "requeue", url(bench), letters, "--dry-run")
    assert outcome.code == 1
    assert outcome.out.startswith("2 would be brought back")
    assert bench.depth(letters) == 3
    outcome = amqproxy("queue", "requeue", url(bench), letters, "--json")
    report = json.loads(outcome.out)
    assert (outcome.code, report["done"], report["left"][0]["message_id"]) == (1, 2, "s")
    assert "not all was done" in outcome.err
    assert bench.bodies(work) == [b"1", b"2"]
    begun, *_, ended = audit(tmp_path)[-2:]
    assert (begun["event"], ended["event"], ended["done"]) == ("begun", "ended", 2)


def test_edited_messages_are_in_the_audit(amqproxy: Amqproxy, bench: BenchAt, tmp_path: Path) -> None:
    letters, work = dead(bench, b"1", b"2")
    options = ("--set", "type=t", "--set", "content_type=", "--header", "b=[1]", "--remove", "a", "--body", "new")
    outcome = amqproxy("queue", "edit", url(bench), letters, *options, "--requeue", "--limit", "1")
    assert outcome.code == 0, outcome.err
    ((_, properties, body),) = bench.taken(work)
    assert (properties.type, properties.content_type, properties.headers["b"], body) == ("t", None, [1], b"new")
    assert "a" not in properties.headers
    (edited,) = [each for each in audit(tmp_path) if each["event"] == "edited"]
    assert edited["changes"] == {
        "properties.content_type": {"from": "application/json", "to": None},
        "properties.type": {"from": None, "to": "t"},
        "headers.a": {"from": 1, "to": None},
        "headers.b": {"from": None, "to": [1]},
        "body": {"diff": "--- before\n+++ after\n@@ -1 +1 @@\n-1\n+new"},
    }


def test_an_editor_changes_messages(
    amqproxy: Amqproxy, bench: BenchAt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = bench.declare()
    bench.publish(queue, [b"old", b"other"], headers={"a": 1})
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "sed -i s/old/new/")
    outcome = amqproxy("queue", "edit", url(bench), queue, "--editor")
    assert outcome.code == 1
    assert "#1: it was not changed in the editor" in outcome.out
    assert sorted(bench.bodies(queue)) == [b"new", b"other"]
    monkeypatch.setenv("EDITOR", "false")
    bench.publish(queue, [b"old"])
    outcome = amqproxy("queue", "edit", url(bench), queue, "--editor")
    assert "exit code 1; its text is in" in outcome.out
    Path(outcome.out.partition("its text is in ")[2].split()[0]).unlink()
    assert bench.bodies(queue) == [b"old"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("move", "BROKER", "q"), "name the queue"),
        (("move", "BROKER", "q", "q"), "already"),
        (("move", "BROKER", "q", "r", "--routing-key", "k"), "needs --exchange"),
        (("move", "BROKER", "q", "r", "--where", "nothing == 1"), "--where"),
        (("move", "BROKER", "q", "r", "--limit", "0"), "--limit 0"),
        (("peek", "http://broker", "q"), "amqp://"),
        (("peek", "BROKER", "q", "--insecure"), "amqps://"),
        (("edit", "BROKER", "q"), "say what to change"),
        (("edit", "BROKER", "q", "--set", "colour=red"), "no property colour"),
        (("edit", "BROKER", "q", "--set", "priority=high"), "is a number"),
        (("edit", "BROKER", "q", "--header", "a"), "NAME=VALUE"),
        (("edit", "BROKER", "q", "--body", "a", "--body-file", "b"), "--body-file"),
    ],
)
def test_wrong_usage(amqproxy: Amqproxy, bench: BenchAt, arguments: tuple[str, ...], reason: str) -> None:
    outcome = amqproxy("queue", *(url(bench) if each == "BROKER" else each for each in arguments))
    assert outcome.code == 2
    assert reason in outcome.err


def test_a_queue_that_does_not_exist_is_named(amqproxy: Amqproxy, bench: BenchAt) -> None:
    outcome = amqproxy("queue", "peek", url(bench), "none")
    assert outcome.code == 1
    assert "404 NOT_FOUND - no queue 'none'" in outcome.err


def test_a_broker_that_is_away_is_named(amqproxy: Amqproxy, bench: BenchAt) -> None:
    outcome = amqproxy("queue", "peek", "amqp://127.0.0.1:1", "q")
    assert outcome.code == 1
    assert "127.0.0.1:1" in outcome.err


def test_an_older_broker_is_not_touched_while_the_limit_is_unknown(amqproxy: Amqproxy, tmp_path: Path) -> None:
    with LocalBroker("4.0") as broker:
        bench = BenchAt(int(broker.address.rpartition(":")[2]), tmp_path)
        queue = bench.numbered(1, x_queue_type="quorum")
        outcome = amqproxy("queue", "peek", url(bench), queue)
        assert outcome.code == 2
        assert "--api" in outcome.err
        outcome = amqproxy("queue", "peek", url(bench), queue, "--type", "quorum", "--delivery-limit", "20")
        assert outcome.code == 0
        assert "Its delivery limit is 20" in outcome.err
        (got,) = bench.taken(queue)
        assert got[1].headers["x-delivery-count"] == 1


def test_ctrl_c_loses_nothing(bench: BenchAt, tmp_path: Path) -> None:
    source, target = bench.numbered(5000), bench.declare()
    process = start("queue", "move", url(bench), source, target)
    while not bench.depth(target):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode in (0, 130), errors
    assert bench.depth(source) + bench.depth(target) == 5000


def test_a_reader_that_goes_away_ends_a_peek(bench: BenchAt) -> None:
    queue = bench.numbered(2000)
    process = start("queue", "peek", url(bench), queue, "--limit", "2000")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    process.stderr.read()
    process.stderr.close()
    assert process.wait() == 141
    assert bench.depth(queue) == 2000
