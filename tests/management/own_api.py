"""The API of `amqproxy broker --management`, in a process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.process import port_in, start, until
from tests.management.api import Api, definitions

PATIENCE = 120.0

ORIGIN = "https://ops.example:8443"
"""The other site whose pages may use the API."""


@contextmanager
def own(directory: Path, minor: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """`amqproxy broker --management`, with the estate."""
    file = directory / "definitions.json"
    file.write_text(json.dumps(definitions("3.10.8")))
    # RabbitMQ's plugins that have exchange types are not enabled there, and 4.3 has a log exchange.
    monkeypatch.setenv("AMQPROXY_BROKER__PLUGINS", '["rabbitmq_shovel"]')
    monkeypatch.setenv("AMQPROXY_BROKER__LOG_EXCHANGE", str(minor == "4.3").lower())
    monkeypatch.setenv("AMQPROXY_BROKER__MANAGEMENT__CORS_ORIGINS", json.dumps([ORIGIN]))
    options = ("--listen", "127.0.0.1:0", "--management", "127.0.0.1:0", "--as", minor, "--definitions", str(file))
    with start("broker", *options) as process:
        port = int(until(process, "management").split("address=")[1].strip().rstrip("/").rpartition(":")[2])
        yield Api(port, port_in(until(process, "listening")))
        process.terminate()
        process.communicate(timeout=PATIENCE)
