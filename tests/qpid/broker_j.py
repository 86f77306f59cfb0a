"""Qpid Broker-J as a separate process."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.real.class_path import class_path
from tests.real.poll import until
from tests.real.ports import free_port
from tests.real.rabbitmq import ENDS_WITH_US
from tests.real.require import require

START_DEADLINE = 120.0
CLIENT_DEADLINE = 150.0

LOGGING = """<configuration><root level="OFF"/></configuration>"""


class BrokerJ:
    """Ready once constructed; it has the virtual host "test" in memory, and the user guest."""

    def __init__(self, directory: Path, memory: str = "256m") -> None:
        self.port = free_port()
        self._output = directory / "output"
        config = directory / "config.json"
        config.write_text(json.dumps(_config(self.port)))
        (directory / "logback.xml").write_text(LOGGING)
        program = [*ENDS_WITH_US, require("java", package="openjdk-17-jre-headless")]
        options = [
            f"-DQPID_WORK={directory}",
            f"-Dlogback.configurationFile={directory / 'logback.xml'}",
            f"-Xmx{memory}",
        ]
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [*program, *options, "-cp", class_path(Path(__file__).parent), "BrokerJ", str(config)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        until(self._is_ready, "Broker-J starts", START_DEADLINE)

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, self._output.read_text()
        return "ready" in self._output.read_text()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.communicate()


def run_scenarios(port: int, *names: str, vhost: str = "test") -> dict[str, str]:
    """What came of each: "ok", or why it failed. All of them where none is named."""
    url = f"amqp://guest:guest@amqproxy/{vhost}?brokerlist='tcp://127.0.0.1:{port}'"
    java = [require("java", package="openjdk-17-jre-headless"), "-Dqpid.amqp.version=0-10"]
    done = subprocess.run(
        [*java, "-cp", class_path(Path(__file__).parent), "Scenarios", url, *names],
        capture_output=True,
        text=True,
        timeout=CLIENT_DEADLINE,
        check=False,
    )
    results: dict[str, str] = {}
    for line in done.stdout.splitlines():
        if not line.startswith(" ") and line.split(" ")[1:2] in (["ok"], ["failed"]):
            name, result = line.split(" ", 1)
            results[name] = result
        elif results:
            results[name] += "\n" + line
    assert results, done.stdout + done.stderr
    return results


def _config(port: int) -> dict[str, Any]:
    """A broker with one port for all the protocols that it is made of, and no management."""
    user = {"name": "guest", "type": "managed", "password": "guest"}
    aliases = [{"name": kind, "type": kind} for kind in ("nameAlias", "defaultAlias", "hostnameAlias")]
    return {
        "name": "broker",
        "modelVersion": "9.0",
        "authenticationproviders": [{"name": "plain", "type": "Plain", "secureOnlyMechanisms": [], "users": [user]}],
        "ports": [
            {
                "name": "AMQP",
                "port": port,
                "bindingAddress": "127.0.0.1",
                "authenticationProvider": "plain",
                "protocols": ["AMQP_0_9", "AMQP_0_9_1", "AMQP_0_10"],
                "virtualhostaliases": aliases,
            }
        ],
        "virtualhostnodes": [
            {
                "name": "test",
                "type": "Memory",
                "defaultVirtualHostNode": "true",
                "virtualHostInitialConfiguration": '{"type":"Memory"}',
            }
        ],
    }
