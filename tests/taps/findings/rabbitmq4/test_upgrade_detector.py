"""Which versions of RabbitMQ have findings about upgrades."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import QueueDeclare, QueueDeclareOk
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.findings.inspector import MAX_TEXTS
from tests.taps.findings.inspected import agreed
from tests.taps.findings.rabbitmq4.used import advice, connected, declare

WHO = 'by "amqplib 0.10.3" (user "shop")'


def test_the_text_names_queue_client_user_and_effect() -> None:
    inspected = connected()
    declare(inspected, x_queue_version=1)
    assert advice(inspected) == [
        ("queue-version", f"queue q is declared with x-queue-version 1 {WHO}: RabbitMQ 4.3 refuses it with 406")
    ]
    (finding,) = inspected.findings
    assert finding.severity is Severity.INFO
    assert "406" not in finding.why
    assert finding.evidence[0].sender == "server"


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("3.13.7", "RabbitMQ 4.3 takes it as deprecated: refused with "),
        ("4.0.5", "RabbitMQ 4.0.5 takes it as deprecated: refused with "),
        ("4.3.6", "RabbitMQ 4.3.6 takes it as deprecated: refused with "),
    ],
)
def test_a_server_that_differs_already_is_named(version: str, text: str) -> None:
    inspected = connected(version)
    declare(inspected, durable=False)
    ((kind, found),) = advice(inspected)
    assert kind == "transient-queue"
    assert f"{WHO}: {text}" in found


def test_what_breaks_is_not_found_where_it_was_taken() -> None:
    """A policy of a broker that answers as RabbitMQ may allow what it refuses by default."""
    inspected = connected("4.3.6")
    declare(inspected, x_queue_version=1)
    assert advice(inspected) == []


def test_another_broker_is_not_upgraded_to_rabbitmq_4() -> None:
    inspected = connected("2.3.0", product="LavinMQ")
    declare(inspected, durable=False)
    assert advice(inspected) == []


def test_a_server_that_was_not_seen_counts_as_an_old_rabbitmq() -> None:
    inspected = agreed(60)
    inspected.client(QueueDeclare(queue="q"))
    inspected.server(QueueDeclareOk("q", 0, 0))
    ((_, text),) = advice(inspected)
    assert text.startswith('queue q is declared neither durable nor exclusive by "an unknown client": RabbitMQ 4.3 ')


def test_each_queue_is_counted_for_itself() -> None:
    inspected = connected()
    for _ in range(10):
        for queue in ("a", "b"):
            declare(inspected, queue, durable=False)
    assert [(each.text.split()[1], each.count) for each in inspected.findings] == [
        ("a", 1),
        ("b", 1),
        ("a", 10),
        ("b", 10),
    ]


def test_the_memory_for_texts_is_bounded() -> None:
    inspected = connected()
    for number in range(MAX_TEXTS + 150):
        declare(inspected, f"q{number}", durable=False)
    assert len(inspected.findings) == MAX_TEXTS, "later ones are counted together, and 1150 is not reported"
