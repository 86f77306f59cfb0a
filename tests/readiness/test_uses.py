"""Uses that stand against an upgrade."""

from __future__ import annotations

import pytest

from amqproxy.rabbitmq.profile import PROFILES
from amqproxy.readiness.uses import Uses
from amqproxy.taps.findings.rabbitmq4.use_text import UseText

TARGET = PROFILES["4.3"]


def found(use: str, user: str = "shop") -> str:
    return str(UseText(use, "amqplib 0.10.3", user, "4.3", "does something"))


def test_a_use_is_counted_for_each_client_and_user() -> None:
    uses = Uses(TARGET)
    for user in ("shop", "mail", "shop"):
        uses.add_finding("rabbitmq4-frame-max", found("frame_max 4096 is asked for", user))
    uses.add_finding("unknown-ack", "tag 1 is acked twice")
    report = uses.readiness()
    assert [(each.user, each.client, each.times) for each in report.uses] == [
        ("shop", "amqplib 0.10.3", 2),
        ("mail", "amqplib 0.10.3", 1),
    ]
    assert not report.is_ready
    assert report.connections is None


def test_the_target_decides_about_the_level() -> None:
    for target, level, is_ready in (
        (TARGET, "deprecated", True),
        (TARGET.switching({"transient_nonexcl_queues": False}), "breaks", False),
    ):
        uses = Uses(target)
        uses.add_finding("rabbitmq4-transient-queue", found("queue q is declared neither durable nor exclusive"))
        report = uses.readiness()
        assert [each.level for each in report.uses] == [level]
        assert report.is_ready is is_ready


def test_what_the_target_does_not_differ_in_is_left_out() -> None:
    uses = Uses(PROFILES["4.0"])
    uses.add_finding("rabbitmq4-frame-max", found("frame_max 4096 is asked for"))
    assert uses.readiness().uses == ()
    assert uses.readiness().verdict == "Ready for RabbitMQ 4.0: 0 would break, 0 would change, 0 deprecated."


def test_rules_are_written_once_for_each_kind() -> None:
    uses = Uses(TARGET)
    for queue in "ab":
        uses.add_finding("rabbitmq4-queue-version", found(f"queue {queue} is declared with x-queue-version 1"))
    assert uses.readiness().rules.count("[[rules]]") == 1


@pytest.mark.parametrize("before", ["rabbitmq4-queue-mode", "rabbitmq4-transient-queue"])
def test_a_use_beyond_the_limit_still_decides_the_verdict(before: str) -> None:
    uses = Uses(TARGET, limit=3)
    for number in range(5):
        uses.add(before, "definitions", f"queue {number} is defined so")
    uses.add("rabbitmq4-queue-version", "traffic", "queue q is declared with x-queue-version 1", client="c", times=7)
    report = uses.readiness()
    assert not report.is_ready
    assert [(each.kind, each.use, each.times) for each in report.uses if each.times > 1] == [
        ("rabbitmq4-queue-version", "uses beyond the first 3", 7),
        (before, "uses beyond the first 3", 2),
    ]
    assert len(report.uses) == 5
