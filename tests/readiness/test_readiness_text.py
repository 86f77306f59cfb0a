"""The report as lines, and as a page."""

from __future__ import annotations

from amqproxy.rabbitmq.profile import PROFILES
from amqproxy.readiness.readiness_page import readiness_page
from amqproxy.readiness.readiness_text import MAX_USES, readiness_lines
from amqproxy.readiness.uses import Uses


def made() -> Uses:
    uses = Uses(PROFILES["4.3"])
    for number in range(MAX_USES + 3):
        use = f"queue <b>{number} is declared with x-queue-version 1"
        uses.add("rabbitmq4-queue-version", "traffic", use, client="pika 1.3.2", user="shop")
    uses.add("rabbitmq4-global-qos", "traffic", "basic.qos with global = true", client="celery", user="mail", times=7)
    uses.add_connections(9, unknown=2)
    return uses


def test_lines() -> None:
    lines = list(readiness_lines(made().readiness()))
    assert lines[0] == "Not ready for RabbitMQ 4.3: 23 would break, 1 would change, 0 deprecated."
    assert lines[1].startswith("Connections seen: 9. Of 2 the beginning was not seen")
    assert "     - and 3 more" in lines
    assert "     - basic.qos with global = true by celery (user mail), 7 times" in lines


def test_a_page_escapes_names() -> None:
    page = "".join(readiness_page(made().readiness()))
    assert "<script" not in page
    assert "queue &lt;b&gt;0 is declared" in page
    assert "arguments.remove" in page
