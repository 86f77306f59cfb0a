"""amq.rabbitmq.log: publishes the broker's log lines, with their level as routing key."""

from __future__ import annotations

import threading
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import structlog

from amqproxy.broker.broker import Broker
from amqproxy.broker.server.clock import current_time


@contextmanager
def log_published(broker: Broker) -> Iterator[None]:
    """Publish what this thread logs through structlog to the broker's exchange as well, for the while.

    Nothing is published where the program has not set structlog up (see `amqproxy.process.log.logger`).
    """
    if not structlog.is_configured():
        yield
        return
    processors = list(structlog.get_config()["processors"])
    # Before the last one, which makes of an event what is written: there it has all fields, and no colours.
    structlog.configure(processors=[*processors[:-1], _LogPublisher(broker), *processors[-1:]])
    try:
        yield
    finally:
        structlog.configure(processors=processors)


class _LogPublisher:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._render = structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0)
        self._thread = threading.get_ident()
        self._is_publishing = False

    def __call__(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        # Lines logged by the publishing itself are not published, because that might never end.
        if not self._is_publishing and threading.get_ident() == self._thread:
            self._is_publishing = True
            try:
                text = self._render(logger, method, dict(event))
                self._broker.log(event.get("level", method), text, current_time())
            except Exception as error:  # noqa: BLE001 - the code that logs is not at fault
                self._broker.events.fail("log line not published", error)
            finally:
                self._is_publishing = False
        return event
