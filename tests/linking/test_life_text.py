"""Lives as lines and as records."""

from __future__ import annotations

import msgspec
import pytest

from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.linking.life_record import DeliveryRecord, LifeRecord, life_record
from amqproxy.linking.life_text import life_lines
from amqproxy.linking.message_life import KEPT_FIRST, MAX_DELIVERIES
from amqproxy.linking.message_linker import MessageLinker
from amqproxy.taps.trace.events import Settlement
from tests.linking.events import delivered, delivery_settled, opened, publish_settled, published

MS = 1_000_000


@pytest.fixture
def linker() -> MessageLinker:
    """A message that is requeued, dead-lettered and answered."""
    died = {"count": 1, "reason": "rejected", "queue": "q", "exchange": "x", "routing-keys": ["k"]}
    request = Properties(message_id="m-1", reply_to="answers")
    dead = Properties(message_id="m-1", reply_to="answers", headers=Table({"x-death": [died]}))
    linker = MessageLinker(1 << 20)
    linker.take(1, [opened(connection_name="shop")])
    linker.take(2, [opened(connection_name="billing")])
    linker.take(1, [published(MS, awaits=True, confirm_tag=1, properties=request)])
    linker.take(1, [publish_settled(2 * MS, Settlement.CONFIRMED)])
    linker.take(2, [delivered(3 * MS, properties=request)])
    linker.take(2, [delivery_settled(4 * MS, Settlement.NACKED, requeue=True)])
    linker.take(2, [delivered(5 * MS, tag=2, redelivered=True, properties=request)])
    linker.take(2, [delivery_settled(6 * MS, Settlement.REJECTED, tag=2)])
    linker.take(2, [delivered(8 * MS, tag=3, exchange="dlx", queue="dead", properties=dead)])
    linker.take(2, [published(9 * MS, b"done", routing_key="answers", properties=Properties(correlation_id="m-1"))])
    return linker


def test_the_lines_of_a_life(linker: MessageLinker) -> None:
    first, second = (list(life_lines(life_record(life, linker.connections))) for life in linker.lives.values())
    assert first == [
        "message 1, linked by message_id m-1",
        "  00:00:00.001000 #1 shop ch 1 → publish  exchange=x routing_key=k 5 bytes  ⇒ confirmed, 1 ms",
        "  00:00:00.003000 #2 billing ch 1 ← deliver  queue=q 2 ms after publish  ⇒ nacked (requeued), 1 ms",
        "  00:00:00.005000 #2 billing ch 1 ← deliver  queue=q redelivered 4 ms after publish  "
        "⇒ rejected (not requeued), 1 ms",
        "  00:00:00.008000 #2 billing ch 1 ← deliver  queue=dead dead letter of q (rejected) 7 ms after publish  "
        "⇒ pending",
        "  answered by message 2",
    ]
    assert second[2:] == ["  replies to message 1"]


def test_what_is_not_sure_is_said() -> None:
    linker = MessageLinker(1 << 20)
    linker.take(1, [opened(), published(1), published(2, number=2), delivered(3)])
    linker.take(1, [delivered(4, b"never published", tag=2)])
    alike, _, unseen = (list(life_lines(life_record(life, {}))) for life in linker.lives.values())
    assert alike[2].endswith("⇒ pending  [not sure: one of 2 alike]")
    assert unseen[0] == "message 3, whose publish was not seen"


def test_a_record_survives_its_json(linker: MessageLinker) -> None:
    record = life_record(linker.lives[1], linker.connections)
    assert msgspec.json.decode(record.to_json(), type=LifeRecord) == record
    assert record.first_ns == MS
    assert [each.follows for each in record.deliveries] == [None, 0, 1]
    assert [each.transit_seconds for each in record.deliveries] == [0.002, 0.004, 0.007]


def test_deliveries_and_replies_beyond_the_limits_are_counted() -> None:
    delivery = DeliveryRecord(ts_ns=0, stream=1, channel=1, sure=True)
    record = LifeRecord(
        life=1, linked_by="content", deliveries=[delivery] * MAX_DELIVERIES, left_out=1744, replies=[2], more_replies=3
    )
    lines = list(life_lines(record))
    assert lines[1 + KEPT_FIRST] == "  … 1,744 more deliveries …"
    assert len(lines) == 1 + MAX_DELIVERIES + 1 + 1
    assert lines[-1] == "  answered by message 2 and 3 more"
    assert msgspec.json.decode(record.to_json(), type=LifeRecord) == record
