"""Outcomes of messages."""

from __future__ import annotations

import pytest

from amqproxy.linking.message_life import Delivery, Group, MessageLife, Place, Publish

PLACE = Place(1, 1, 1)
GROUP = Group(("/", "q"), 0, "x", "k")


def _publish(**fields: object) -> Publish:
    return Publish(1, PLACE, 1, "/", "x", "k", 5, None, None, None, **fields)  # type: ignore[arg-type]


def _delivery(**fields: object) -> Delivery:
    return Delivery(2, PLACE, 1, "q", "c", GROUP, False, False, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("outcome", "requeue", "is_final"),
    [
        ("acked", None, True),
        ("auto-acked", None, True),
        ("rejected", False, True),
        ("rejected", True, False),
        ("recovered", True, False),
        ("open", None, False),
        (None, None, False),
    ],
)
def test_final_outcomes_of_a_delivery(outcome: str | None, requeue: bool | None, is_final: bool) -> None:
    assert _delivery(outcome=outcome, requeue=requeue).is_final is is_final


def test_a_life_is_settled_when_all_of_it_is() -> None:
    life = MessageLife(1, 1, False, _publish(outcome="confirmed"))
    assert not life.is_settled  # a delivery may come
    life.deliveries.append(_delivery())
    assert not life.is_settled
    acked = MessageLife(1, 1, False, _publish(outcome="confirmed"), [_delivery(outcome="acked")])
    assert acked.is_settled
    assert MessageLife(1, 1, False, _publish(outcome="nacked", takes_part=False)).is_settled


def test_only_one_possible_publish_that_is_committed_is_sure() -> None:
    life = MessageLife(1, 1, False, _publish())
    assert _delivery(among=1, is_certain=True, life=life).is_sure
    assert not _delivery(among=2, is_certain=True, life=life).is_sure
    assert not _delivery(among=1, is_certain=False, life=life).is_sure
    uncommitted = MessageLife(1, 1, False, _publish(is_uncommitted=True))
    assert not _delivery(among=1, is_certain=True, life=uncommitted).is_sure


def test_a_group_fits_messages_of_its_exchange_and_routing_key() -> None:
    life = MessageLife(1, 1, False, _publish())
    assert GROUP.fits(life)
    assert GROUP._replace(exchange=None, routing_key=None).fits(life)
    assert not GROUP._replace(routing_key="other").fits(life)
