"""What is done first with an installation: a proxy is started and used by a client, and the pytest plugin is tried."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.packaging.clean_environment import CleanEnvironment
from tests.real.poll import until

PUBLISH = """
import sys, pika
with pika.BlockingConnection(pika.URLParameters(sys.argv[1])) as connection:
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("orders")
    channel.basic_publish("", "orders", b"7")
    print(channel.basic_get("orders", auto_ack=True)[2])
"""

PROJECT = """
import pika

def test_an_order(amqp_proxy):
    with pika.BlockingConnection(pika.URLParameters(amqp_proxy.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("orders")
        channel.basic_publish("", "orders", b'{"number": 7}')
    amqp_proxy.wait_for("routing_key == 'orders' && json.number == 7")
    amqp_proxy.assert_all_confirmed()
"""


@contextmanager
def serving(installed: CleanEnvironment, *parts: str) -> Iterator[dict[str, str]]:
    """A proxy with the integrated broker behind it, and its addresses by event: `listening`, and those of `parts`.

    Parts are options that take an address: "metrics", "dashboard". Its end must be an orderly one.
    """
    ports = [word for each in ("listen", *parts) for word in (f"--{each}", "127.0.0.1:0")]
    log = installed.directory / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [installed.programs / "amqproxy", "run", "--upstream", "broker", "--log-format", "json", *ports],
            cwd=installed.directory,
            env=installed.environment,
            stderr=output,
        )
    try:

        def addresses() -> dict[str, str]:
            assert process.poll() is None, log.read_text()
            events = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
            found = {event["event"]: event["address"] for event in events if "address" in event}
            return found if "listening" in found else {}

        yield until(addresses, "the proxy to listen")
        process.terminate()
        assert process.wait(60) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


def publish(installed: CleanEnvironment, address: str) -> None:
    """Publish an order to HOST:PORT, and get it again."""
    assert installed.run("python", "-c", PUBLISH, f"amqp://guest:guest@{address}/").stdout == "b'7'\n"


def try_plugin(installed: CleanEnvironment, directory: Path) -> None:
    """Run a project's test, written into `directory`, with the fixtures of the plugin."""
    (directory / "test_orders.py").write_text(PROJECT)
    done = installed.run("pytest", "-q", "-p", "no:cacheprovider", "--rootdir", directory, directory)
    assert "1 passed" in done.stdout
