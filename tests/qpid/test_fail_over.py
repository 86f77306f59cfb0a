"""The Qpid JMS client that loses its connection to the integrated broker, and gets another."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from amqproxy.control import ControlClient
from tests.qpid.broker_j import CLIENT_DEADLINE
from tests.real.class_path import class_path
from tests.real.poll import until
from tests.real.ports import free_port
from tests.real.proxy import Program
from tests.real.rabbitmq import ENDS_WITH_US
from tests.real.require import require

pytestmark = [pytest.mark.real, pytest.mark.slow]


class KeptBroker:
    """The integrated broker on one port, with its data on the disk: it may be killed, and started again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = free_port()
        self._starts = 0
        self._config = directory / "config.toml"
        self._config.write_text('[control]\npath = "control.sock"\n')
        self._program = self._start()

    @property
    def url(self) -> str:
        """For the JMS client, which is to try again and again."""
        address = f"tcp://127.0.0.1:{self._port}?retries='100'&connectdelay='200'"
        return f"amqp://guest:guest@amqproxy//?brokerlist='{address}'&failover='singlebroker?cyclecount='100''"

    def _start(self) -> Program:
        self._starts += 1
        place = ["--listen", f"127.0.0.1:{self._port}", "--data", str(self._directory / "data")]
        command = [sys.executable, "-m", "amqproxy", "broker", *place, "--config", str(self._config)]
        return Program(self._directory / f"broker-{self._starts}.log", *command)

    def close_connections(self) -> None:
        """What an operator does: connection.close 320."""
        with ControlClient(str(self._directory / "control.sock")) as control:
            for each in control.ask("connections")["connections"]:
                control.ask("close", session=each["session"])

    def restart(self) -> None:
        """After a kill."""
        self._program.kill()
        self._program = self._start()

    def end(self) -> str:
        """Its log."""
        self._program.kill()
        return self._program.log


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KeptBroker]:
    broker = KeptBroker(tmp_path)
    yield broker
    broker.end()


@pytest.mark.once
def test_a_close_and_a_restart(broker: KeptBroker, tmp_path: Path) -> None:
    java = [*ENDS_WITH_US, require("java", package="openjdk-17-jre-headless"), "-Dqpid.amqp.version=0-10"]
    output = tmp_path / "output"
    with output.open("wb") as file:
        command = [*java, "-cp", class_path(Path(__file__).parent), "FailOver", broker.url]
        client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=file, stderr=file)
    try:
        for number, lose in enumerate((broker.close_connections, broker.restart), 1):
            _wait(client, output, "ready", number)
            lose()
            assert client.stdin is not None
            client.stdin.write(b"\n")
            client.stdin.flush()
        _wait(client, output, "ok", 1)
    finally:
        client.kill()
        client.communicate()
    assert "Traceback" not in broker.end()


def _wait(client: subprocess.Popen[bytes], output: Path, line: str, times: int) -> None:
    def is_there() -> bool:
        found = output.read_text().splitlines().count(line) >= times
        assert found or client.poll() is None, output.read_text()
        return found

    until(is_there, f"the client's {line}", CLIENT_DEADLINE)
