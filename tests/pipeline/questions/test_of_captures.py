"""Answers about tables that the jobs have made of captures: what happened in them is what is answered."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")

from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicNack,
    ConfirmSelect,
    ConfirmSelectOk,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.pipeline import jobs
from amqproxy.pipeline.duck import DuckSession
from amqproxy.pipeline.ledger import Ledger
from amqproxy.pipeline.questions import QUESTIONS
from amqproxy.pipeline.questions.answer import answer_of_reader
from amqproxy.pipeline.questions.span import span
from amqproxy.pipeline.reading import Reader
from tests.capture import golden
from tests.capture.building import ACK, FIN, ethernet, ipv4, pcapng, tcp
from tests.export.dialogue import START_NS, Dialogue
from tests.pipeline.captures_by_hand import capture_of, later, packets_of

pytestmark = pytest.mark.once

MS = 1_000_000
HOUR = 3_600_000 * MS


def publisher() -> Dialogue:
    """Five orders, of which the last is nacked, and a message to a queue by its name."""
    made = Dialogue("shop").declare("slow").client(ConfirmSelect()).server(ConfirmSelectOk())
    for number in range(1, 6):
        body = json.dumps({"order": number, "mail": "ada@example.org"}).encode()
        made.publish("orders", "new", body, Properties(message_id=f"m{number}"))
        made.server(BasicNack(delivery_tag=5) if number == 5 else BasicAck(delivery_tag=number))
    return made.publish("", "slow", b"x", Properties(message_id="s1")).server(BasicAck(delivery_tag=6))


def consumer() -> Dialogue:
    """Three of the orders come two seconds later; the second is rejected, and the third requeued."""
    made = later(Dialogue("mail", stream=1, address="10.0.0.9", product="bunny"), 1)
    made.client(BasicConsume(queue="mail", consumer_tag="c")).server(BasicConsumeOk(consumer_tag="c"))
    for number in range(1, 4):
        body = json.dumps({"order": number, "mail": "ada@example.org"}).encode()
        made.content(BasicDeliver("c", number, False, "orders", "new"), body, Properties(message_id=f"m{number}"))
    made.client(BasicAck(delivery_tag=1))
    made.client(BasicNack(delivery_tag=2, requeue=False), BasicNack(delivery_tag=3, requeue=True))
    return made


def cut_login() -> list[tuple[int, bytes]]:
    """A client says who it is, and the server ends the connection without a word."""
    made = Dialogue("eve", stream=2, address="10.0.0.66")
    made.decoded = made.decoded[:3]
    sent = {"client": 8, "server": 0}
    for each in made.decoded:
        if isinstance(each, Amqp091DecodedFrames):
            sent[each.sender] += sum(len(frame.raw) for frame in each.frames)
    ends = [("10.0.0.2", 5672, "server"), ("10.0.0.66", 40002, "client")]
    packets = packets_of(made)
    for (source, port, sender), (target, target_port, _) in (ends, ends[::-1]):
        end = tcp(source=port, target=target_port, seq=1 + sent[sender], flags=ACK | FIN)
        packets.append((made._now, ethernet(ipv4(end, source=source, target=target))))
    return packets


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    path = tmp_path_factory.mktemp("answered")
    (path / "traffic.pcapng").write_bytes(capture_of(publisher(), consumer()))
    (path / "cut.pcapng").write_bytes(pcapng(cut_login()))
    captures = [str(path / each) for each in ("traffic.pcapng", "cut.pcapng")]
    captures.append(str(golden.FOLDER / "login-refused.pcapng"))
    session = cast("Any", DuckSession())
    with Ledger(str(path / "tables")) as ledger:
        jobs.run(session, ledger, captures, jobs.Settings(age_ns=0, fields=True))
    session.close()
    return Reader(str(path / "tables"))


def asked(tables: Reader, name: str, start_ns: int = START_NS, **options: Any) -> list[dict[str, Any]]:
    found = span(0, QUESTIONS[name].seconds, start_ns=start_ns)
    return answer_of_reader(tables, QUESTIONS[name], found, options).to_pylist()


def test_dependencies(tables: Reader) -> None:
    path, unread = asked(tables, "dependencies")
    assert (path["publisher"], path["exchange"], path["routing_key"], path["queue"], path["consumer"]) == (
        *("shop", "orders", "new", "mail", "mail"),
    )
    assert (path["published"], path["failed"], path["delivered"], path["refused"]) == (5, 1, 3, 2)
    assert (path["publisher_client"], path["consumer_client"]) == ("pika", "bunny")
    assert path["per_second"] == 0.05, "in a minute"
    assert 1000 * MS < path["p99_ns"] < 3000 * MS
    assert (unread["exchange"], unread["routing_key"], unread["queue"], unread["published"]) == ("", "slow", None, 1)


def test_objectives(tables: Reader) -> None:
    rows = asked(tables, "objectives", objective=50.0, delivery_ms=500.0)
    assert [(row["what"], row["queue"], row["messages"], row["missed"], row["budget_left_share"]) for row in rows] == [
        ("delivery", "mail", 3, 3, -1.0),
        ("confirm", None, 5, 1, 0.6),
        ("confirm", "slow", 1, 0, 1.0),
    ]


def test_queue_depths(tables: Reader) -> None:
    rows = asked(tables, "queue-depth")
    assert [(row["queue"], row["waiting"], row["waiting_least"], row["declared"]) for row in rows] == [
        ("mail", 2, 2, None),  # the fourth, and the third again
        ("slow", 1, 1, 0),
    ]


def test_client_versions_and_fields(tables: Reader) -> None:
    versions = {row["name"]: row["change"] for row in asked(tables, "changes") if row["what"] == "client version"}
    assert versions == {"pika": "new", "bunny": "new"}
    held = [(row["queue"], row["path"], row["holds"], row["messages"]) for row in asked(tables, "personal-data")]
    assert held == [(None, "$.mail", "e-mail", 5), ("mail", "$.mail", "e-mail", 3)], "as Spark orders them"


def test_failed_logins(tables: Reader) -> None:
    known = tables.span(["errors"])
    assert known is not None
    [row] = asked(tables, "failed-logins", start_ns=known[1] - HOUR)
    assert (row["address"], row["user"], row["code"], row["times"], row["opened"]) == ("127.0.0.1", "guest", 403, 1, 0)
    assert row["text"].startswith("ACCESS_REFUSED")
    [row] = asked(tables, "failed-logins")
    assert (row["address"], row["user"], row["text"]) == ("10.0.0.66", "eve", "server closed without connection.close")
