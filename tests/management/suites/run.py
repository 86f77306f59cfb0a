"""One suite at one peer, on the usual ports 5672 and 15672 of a network namespace: prints the results as JSON.

unshare --net python -m tests.management.suites.run rabbitmq|own SUITE DIRECTORY
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.process import start, until
from tests.management.api import Api
from tests.management.suites import go_suite, rust_suites
from tests.management.suites.estate import make_estate
from tests.real.rabbitmq import RabbitMQ
from tests.real.rabbitmq_installation import installation

PLUGINS = (
    *("rabbitmq_management", "rabbitmq_shovel", "rabbitmq_shovel_management", "rabbitmq_federation"),
    *("rabbitmq_federation_management", "rabbitmq_stream", "rabbitmq_stream_management"),
)
"""Plugins that the suites enable."""

PORT, AMQP_PORT = 15672, 5672

PATIENCE = 120.0


@contextmanager
def rabbitmq(directory: Path) -> Iterator[None]:
    """RabbitMQ 4.3 with the plugins."""
    settings = {
        "management.tcp.port": PORT,
        "management.tcp.ip": "127.0.0.1",
        "collect_statistics_interval": 1000,
        "listeners.ssl": "none",
    }
    node = RabbitMQ(directory, installation("4.3"), settings, PLUGINS)
    node.port = AMQP_PORT
    try:
        node.start()
        yield
    finally:
        node.stop()


@contextmanager
def own() -> Iterator[None]:
    """`amqproxy broker --management`."""
    place = ("--listen", f"127.0.0.1:{AMQP_PORT}", "--management", f"127.0.0.1:{PORT}")
    with start("broker", *place) as process:
        until(process, "management")
        yield
        process.terminate()
        process.communicate(timeout=PATIENCE)


def main() -> None:
    peer, suite, directory = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with rabbitmq(directory) if peer == "rabbitmq" else own():
        make_estate(Api(PORT, AMQP_PORT))
        if suite == "rabbit-hole":
            results = go_suite.run(go_suite.built())
        else:
            results = rust_suites.run(rust_suites.built(suite))
    json.dump(results, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
