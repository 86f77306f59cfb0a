"""AMQP 1.0 clients, Qpid Proton and rhea, before RabbitMQ 4.3: they pass unread, or are refused by choice."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.real.clients import amqplib_client
from tests.real.poll import DEADLINE, until
from tests.real.proxy import StartProxy, command
from tests.real.rabbitmq import RabbitMQ, running
from tests.real.rabbitmq_installation import installation
from tests.real.require import missing, require

pytestmark = [pytest.mark.real, pytest.mark.once]

MESSAGES = 20
QUEUE = "/queues/unread"
SYSTEM_PYTHON = "/usr/bin/python3"
PROTON = Path(__file__).parent / "clients" / "proton_messages.py"

DENY = {"name": "no purges", "action": "refuse", "match": {"method": "queue.purge"}}
LOG = {"name": "seen", "action": "log", "match": {"method": "basic.publish"}}

Client = Callable[[int], str]
"""Sends messages through a port, takes them again, and returns what it prints."""


def proton(port: int) -> str:
    if subprocess.run([SYSTEM_PYTHON, "-c", "import proton"], capture_output=True, check=False).returncode:
        missing("Qpid Proton", "apt-get install python3-qpid-proton")
    return _output([SYSTEM_PYTHON, str(PROTON), str(port), QUEUE, str(MESSAGES)])


def rhea(port: int) -> str:
    node = amqplib_client.installed()
    return _output([node, str(amqplib_client.HERE / "messages-1.0.js"), str(port), QUEUE, str(MESSAGES)])


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    with running(tmp_path_factory.mktemp("rabbitmq"), installation("4.3")) as node:
        with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.port)) as connection:
            connection.channel().queue_declare("unread", durable=True)
        yield node


def control(config: Path, *what: str) -> str:
    """Return what `amqproxy control` prints."""
    arguments = [*command(), "control", *what, "--config", str(config)]
    return subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=60).stdout


def connections(config: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in control(config, "connections", "--json").splitlines()]


@pytest.mark.parametrize("client", [proton, rhea])
def test_they_work_through_rules_print_and_a_recorder(
    client: Client, broker: RabbitMQ, start_proxy: StartProxy, tmp_path: Path
) -> None:
    directory = tmp_path / "captures"
    proxy = start_proxy(
        broker.port,
        *("--print", "--record", str(directory)),
        rules=[LOG],
        control={"path": str(tmp_path / "control.sock")},
        metrics={"address": "127.0.0.1:0"},
    )
    assert client(proxy.port).split() == [str(MESSAGES)]
    until(lambda: "passes without being read" in proxy.log, "the warning")
    proxy.terminate()
    assert proxy.wait() == 0
    (file,) = directory.iterdir()
    shown = (
        subprocess.run(
            [
                *(require("tshark"), "-r", str(file), "-d", f"tcp.port=={proxy.port},amqp"),
                *("-T", "fields", "-e", "amqp.performative"),
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=DEADLINE,
        )
        .stdout.replace(",", "\n")
        .split()
    )
    assert shown.count("20") >= 2 * MESSAGES  # transfers, 0x14
    decoded = subprocess.run([*command(), "decode", str(file)], capture_output=True, text=True, check=False, timeout=60)
    assert "Traceback" not in decoded.stderr
    with subprocess.Popen(["zstd", "-dc", str(file)], stdout=subprocess.PIPE) as unpacked:
        assert unpacked.stdout
        data = unpacked.stdout.read()
    assert b"message 7" in data
    assert b"guest\0*****" in data
    assert b"guest\0guest" not in data


def test_rules_that_decide_refuse_them_unless_the_listener_lets_them_pass(
    broker: RabbitMQ, start_proxy: StartProxy
) -> None:
    refusing = start_proxy(broker.port, rules=[DENY])
    assert str(MESSAGES) not in proton(refusing.port).split()
    until(lambda: 'unread = "pass" on the listener lets it pass' in refusing.log, "the reason in the log")
    assert proton(start_proxy(broker.port, rules=[DENY], listen=[{"unread": "pass"}]).port).split() == [str(MESSAGES)]
    assert str(MESSAGES) not in proton(start_proxy(broker.port, listen=[{"unread": "refuse"}]).port).split()


def test_a_log_rule_set_at_runtime_leaves_them_connected(
    broker: RabbitMQ, start_proxy: StartProxy, tmp_path: Path
) -> None:
    proxy = start_proxy(broker.port, control={"path": str(tmp_path / "control.sock")})
    config = next(tmp_path.glob("proxy-*.yaml"))
    rules = tmp_path / "rules.yaml"
    waiting = [SYSTEM_PYTHON, str(PROTON), str(proxy.port), QUEUE, "0"]
    with subprocess.Popen(waiting, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as client:
        try:
            until(lambda: [each for each in connections(config) if each["bytes"]["server"] > 200], "the connection")
            rules.write_text(json.dumps([LOG]))
            control(config, "rules-set", str(rules))
            (connection,) = connections(config)
            assert connection["protocol"] == "1.0 (SASL)"
            rules.write_text(json.dumps([LOG, DENY]))
            control(config, "rules-set", str(rules))
            until(lambda: not connections(config), "the end of the connection")
        finally:
            client.kill()
    until(lambda: "the proxy does not decode its protocol: rules need to read it" in proxy.log, "the warning")
