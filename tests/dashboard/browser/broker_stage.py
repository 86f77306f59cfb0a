"""A proxy with an integrated broker that has a bit of everything, also names that are markup."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pika
import pika.exceptions

from tests.dashboard.browser.stage import Stage
from tests.dashboard.browser.traffic import connected
from tests.real.poll import until

MARKUP = '"><img src=x onerror="window.hurt=1"><script>window.hurt=1</script>'
"""A name that would run in a page which took it for markup."""


def furnish(stage: Stage) -> None:
    """Declare queues of all types, dead letters with their history, policies, and names that are markup."""
    with connected(stage.port, "shop") as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.exchange_declare("orders", "topic", durable=True)
        for name in ("dead", "moved"):
            channel.queue_declare(name, durable=True)
        channel.queue_declare(
            "orders",
            durable=True,
            arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-max-length": 1000},
        )
        channel.queue_bind("orders", "orders", "order.*")
        channel.queue_declare("quorum", durable=True, arguments={"x-queue-type": "quorum"})
        channel.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
        for number in range(6):
            _publish(channel, "orders", f"order.{number % 2}", b'{"order": %d}' % number, number)
        for _ in range(6):
            method, _, _ = channel.basic_get("orders")
            channel.basic_reject(method.delivery_tag, requeue=False)
        for number in range(3):
            _publish(channel, "", "quorum", b"a text", number)
        channel.exchange_declare(MARKUP, "fanout", durable=True)
        channel.queue_declare(MARKUP, durable=True, arguments={"x-note": MARKUP})
        channel.queue_bind(MARKUP, MARKUP, MARKUP, arguments={MARKUP[:100]: MARKUP})
        properties = pika.BasicProperties(headers={MARKUP[:100]: MARKUP}, message_id=MARKUP, type=MARKUP)
        channel.basic_publish("", MARKUP, MARKUP.encode(), properties)
    until(lambda: queue_of(stage, "dead")["ready"] == 6, "the dead letters")


def _publish(channel: Any, exchange: str, key: str, body: bytes, number: int) -> None:
    properties = pika.BasicProperties(
        message_id=str(number), content_type="application/json", headers={"tenant": "acme" if number % 2 else "zeta"}
    )
    with suppress(pika.exceptions.UnroutableError):
        channel.basic_publish(exchange, key, body, properties, mandatory=True)


def queue_of(stage: Stage, name: str) -> dict[str, Any]:
    """Return a queue's entry."""
    found: dict[str, Any] = stage.get(f"sources/0/broker/queue?name={name}")["queue"]
    return found


def log_in(window: Any) -> None:
    """Log in to the broker on its screen."""
    from playwright.sync_api import expect

    window.get_by_role("button", name="Log in to the broker …").click()
    dialog = window.get_by_role("dialog", name="Log in to the broker")
    dialog.get_by_label("User").fill("guest")
    dialog.get_by_label("Password").fill("guest")
    dialog.get_by_role("button", name="Log in").click()
    expect(window.get_by_role("button", name="Log out of the broker")).to_be_visible()
