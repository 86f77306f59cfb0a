"""Recordings of a proxy, and of the integrated broker, as processes: what was on the wire is in the files."""

import json
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest

from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decode import read_decoded
from tests.real.clients import Broker, pika_client
from tests.real.own import OwnBroker
from tests.real.poll import until
from tests.real.proxy import StartProxy, command
from tests.real.rabbitmq import RabbitMQ

pytestmark = pytest.mark.real


def recorded(directory: Path) -> list[str]:
    """The methods in the recordings, of the client's legs."""
    found = []
    for decoded in read_decoded(directory):
        if isinstance(decoded, Amqp091DecodedFrames):
            found += [frame.method.name for frame in decoded.frames if frame.kind == 1]
    return found


def asked(config: Path, *what: str) -> dict[str, Any]:
    done = subprocess.run(
        [*command(), "record", *what, "--config", str(config)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout) if "--json" in what else {}
    return found


def published(port: int, count: int, size: int = 100) -> pika.BlockingConnection:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
    channel = connection.channel()
    for _ in range(count):
        channel.basic_publish("", "nowhere", bytes(size))
    return connection


def test_a_proxy_that_runs_is_recorded_for_a_while(rabbitmq: RabbitMQ, start_proxy: StartProxy, tmp_path: Path) -> None:
    proxy = start_proxy(rabbitmq.port, control={"path": str(tmp_path / "control.sock")})
    config = next(tmp_path.glob("proxy-*.yaml"))
    directory = tmp_path / "captures"
    with published(proxy.port, 3) as connection:
        asked(config, "start", str(directory), "--file-size", "64KiB", "--body", "10")
        channel = connection.channel()
        channel.confirm_delivery()
        for _ in range(200):
            channel.basic_publish("", "nowhere", bytes(1000))
        # The next file begins when the proxy's loop comes to it: a recording that is stopped before has one file.
        until(lambda: len(list(directory.glob("*.pcapng*"))) > 1, "a second file")
        channel.basic_publish("", "nowhere", bytes(1000))
        status = asked(config, "stop", "--json")
        channel.basic_publish("", "nowhere", b"")
    assert status["dropped"] == status["lost"] == 0
    assert status["files"] > 1
    assert all(file.name.endswith(".pcapng.zst") for file in directory.iterdir())
    found = recorded(directory)
    assert found.count("basic.publish") == found.count("basic.ack") == 201
    assert asked(config, "status", "--json")["is_recording"] is False


def test_a_crash_loses_the_last_second_at_most(rabbitmq: RabbitMQ, start_proxy: StartProxy, tmp_path: Path) -> None:
    directory = tmp_path / "captures"
    proxy = start_proxy(rabbitmq.port, "--record", str(directory))
    connection = published(proxy.port, 500)
    time.sleep(1)
    proxy.kill()
    with suppress(pika.exceptions.AMQPError):
        connection.close()
    (file,) = directory.glob("amqproxy-*")
    assert file.name.endswith(".pcapng.partial")
    next_one = start_proxy(rabbitmq.port, "--record", str(directory))
    next_one.terminate()
    assert next_one.wait() == 0
    (file,) = directory.iterdir()
    assert file.name.endswith(".pcapng.zst")
    assert recorded(directory).count("basic.publish") == 500


def test_what_is_encrypted_is_recorded_in_clear(rabbitmq: RabbitMQ, start_proxy: StartProxy, tmp_path: Path) -> None:
    directory = tmp_path / "captures"
    proxy = start_proxy(
        rabbitmq.tls_port,
        upstream={"tls": {"ca": str(rabbitmq.certificates["authority"])}},
        record={"directory": str(directory), "compress": False},
    )
    pika_client.publish_consume(Broker(proxy.port, rabbitmq.ctl))
    proxy.terminate()
    assert proxy.wait() == 0
    (file,) = directory.iterdir()
    found = recorded(directory)
    assert "basic.publish" in found
    assert found[-1] == "connection.close-ok"
    assert b"\0guest\0*****" in file.read_bytes()
    assert b"\0guest\0guest" not in file.read_bytes()
    upstream = [each for each in read_decoded(file, leg="upstream") if isinstance(each, Amqp091DecodedFrames)]
    assert {each.connection.rpartition(":")[2] for each in upstream} == {str(rabbitmq.tls_port)}


def test_the_integrated_broker_by_itself(tmp_path: Path) -> None:
    directory = tmp_path / "captures"
    broker = OwnBroker(tmp_path, "--record", str(directory))
    try:
        published(broker.port, 10).close()
        until(lambda: list(directory.iterdir()), "a recording")
        broker.terminate()
        assert broker.wait() == 0
    finally:
        broker.kill()
    found = recorded(directory)
    assert found.count("basic.publish") == 10
    assert found[-1] == "connection.close-ok"
