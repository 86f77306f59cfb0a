"""Values that a client or a damaged capture makes up stop neither a job nor an answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")

from amqproxy.amqp091.methods import BasicAck, BasicConsume, BasicConsumeOk, BasicDeliver
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.pipeline import jobs
from amqproxy.pipeline.duck import DuckSession
from amqproxy.pipeline.ledger import Ledger
from amqproxy.pipeline.questions import QUESTIONS
from amqproxy.pipeline.questions.answer import answer_of_reader
from amqproxy.pipeline.questions.span import span
from amqproxy.pipeline.reading import Reader
from tests.capture.building import pcapng
from tests.export.dialogue import START_NS, Dialogue
from tests.pipeline.captures_by_hand import packets_of

pytestmark = pytest.mark.once

MOST = 2**63 - 1


def dialogue() -> Dialogue:
    """Messages whose headers claim impossible numbers of deliveries, and to live forever."""
    made = Dialogue("eve").declare("q")
    made.client(BasicConsume(queue="q", consumer_tag="c")).server(BasicConsumeOk(consumer_tag="c"))
    deaths = Table({"x-death": [Table({"count": MOST}), Table({"count": MOST})]})
    for tag, headers in enumerate((deaths, Table({"x-delivery-count": MOST}), Table({"x-death": "'"})), 1):
        claimed = Properties(headers=headers, expiration=str(MOST))
        made.publish("", "q", b"x", claimed)
        made.content(BasicDeliver("c", tag, False, "", "q"), b"x", claimed)
    return made.publish("", "q", b"y", Properties(expiration=str(MOST))).client(BasicAck(delivery_tag=3, multiple=True))


def ran(path: Path, packets: list[tuple[int, bytes]]) -> Reader:
    (path / "a.pcapng").write_bytes(pcapng(packets))
    session = cast("Any", DuckSession())
    with Ledger(str(path / "tables")) as ledger:
        jobs.run(session, ledger, [str(path / "a.pcapng")], jobs.Settings(has_frames=True))
    session.close()
    return Reader(str(path / "tables"))


def test_a_client_makes_up_headers(tmp_path: Path) -> None:
    tables = ran(tmp_path, packets_of(dialogue()))
    asked = span(0, 3600, start_ns=START_NS)
    [depth] = answer_of_reader(tables, QUESTIONS["queue-depth"], asked).to_pylist()
    assert (depth["queue"], depth["waiting"]) == ("q", 1)
    [poison] = answer_of_reader(tables, QUESTIONS["poison"], asked, {"times": 1}).to_pylist()
    assert poison["most_deliveries"] == 1, "as seen"


def test_a_capture_claims_to_be_from_a_year_beyond_2262(tmp_path: Path) -> None:
    later = [(2**63 + n * 10**15, packet) for n, (_, packet) in enumerate(packets_of(dialogue()))]
    assert {"events", "frames", "connections"} <= set(ran(tmp_path, later).names())
