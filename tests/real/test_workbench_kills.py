"""Dead letters brought back with kill -9 in the middle: none is lost, and all duplicates are counted and said.

`make workbench` runs it with 100,000 messages on RabbitMQ 3.10, 4.3 and the integrated broker.
"""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.own import OwnBroker
from tests.real.poll import until
from tests.real.proxy import command
from tests.real.rabbitmq import running
from tests.real.rabbitmq_installation import installation
from tests.workbench.bench_queue import BenchAt

pytestmark = pytest.mark.real

LOG = logging.getLogger(__name__)

BATCH = 256
"""Messages that may be on both sides after a kill."""


class Letters:
    """Numbered dead letters in `dead`, which died in `work`."""

    def __init__(self, port: int, directory: Path, count: int, **arguments: object) -> None:
        self.bench = BenchAt(port)
        self.count = count
        self.state = directory / "state"
        self.dead = self.bench.declare(**arguments)
        self.work = self.bench.declare(x_dead_letter_exchange="", x_dead_letter_routing_key=self.dead)
        self.repeats = 0
        self.kills = 0

    def bury(self) -> None:
        """Publish the messages, and reject them all."""
        with self.bench.channel() as channel:
            for number in range(self.count):
                channel.basic_publish("", self.work, b"%d" % number)
        until(lambda: self.bench.depth(self.work) == self.count, "all to be in the queue", 120.0)
        with self.bench.channel() as channel:
            channel.basic_qos(prefetch_count=1000)
            for taken, (method, _, _) in enumerate(channel.consume(self.work), 1):
                if taken == self.count:
                    channel.basic_nack(method.delivery_tag, multiple=True, requeue=False)
                    break
                if taken % 1000 == 0:
                    channel.basic_nack(method.delivery_tag, multiple=True, requeue=False)
        until(lambda: self.bench.depth(self.dead) == self.count, "all to be dead letters", 120.0)

    def start(self) -> subprocess.Popen[str]:
        """Begin to bring them back."""
        url = f"amqp://guest:guest@127.0.0.1:{self.bench.port}"
        options = ["--type", "quorum", "--delivery-limit", "-1", "--json", "--audit", str(self.state / "audit.jsonl")]
        return subprocess.Popen(
            [*command(), "queue", "requeue", url, self.dead, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def kill(self, process: subprocess.Popen[str]) -> None:
        process.kill()
        process.communicate()
        self.kills += 1

    def finish(self) -> None:
        """Bring back the rest, in several runs if the broker returns what a killed one held after the next began."""
        until(self._is_finished, "all to be back", 600.0)

    def _is_finished(self) -> bool:
        process = self.start()
        output, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors
        report = json.loads(output)
        self.repeats += report.get("possible_repeats", 0)
        LOG.info(f"{report['done']} in the last run, {self.repeats} possible duplicates after {self.kills} kills")
        return self.bench.depth(self.work) >= self.count and not self.bench.depth(self.dead)

    def check(self) -> None:
        """Compare the messages that are back with those that were there."""
        assert self.bench.depth(self.dead) == 0
        found: Counter[int] = Counter()
        with self.bench.channel() as channel:
            for method, _, body in channel.consume(self.work, auto_ack=True, inactivity_timeout=2):
                if method is None:
                    break
                found[int(body)] += 1
        assert set(range(self.count)) - set(found) == set()
        duplicates = found.total() - self.count
        LOG.info(f"{duplicates} duplicates of {self.count} messages; {self.repeats} were said to be possible")
        assert duplicates <= self.repeats <= self.kills * BATCH


def bring_back(letters: Letters, kills: int, chance: random.Random, spread: float = 0.02) -> None:
    """Bring all back, with kills within `spread` seconds after a share of them is back."""
    logging.getLogger("pika").setLevel(logging.CRITICAL)
    letters.bury()
    for number in range(kills):
        rest = letters.bench.depth(letters.dead)
        process = letters.start()
        wanted = rest - rest // (kills - number + 1)
        until(lambda wanted=wanted: letters.bench.depth(letters.dead) <= wanted, "some to be back", 120.0)
        time.sleep(chance.uniform(0.0, spread))
        letters.kill(process)
        repeats = _counted(letters)
        LOG.info(f"kill {number + 1}: {repeats} messages in the journal")
    letters.finish()
    letters.check()


def _counted(letters: Letters) -> int:
    return sum((each.stat().st_size - 8) // 16 for each in letters.state.glob("batches/*.batch"))


@pytest.mark.parametrize("name", ["rabbitmq", "own_broker"])
@pytest.mark.parametrize("arguments", [{}, {"x_queue_type": "quorum"}], ids=["classic", "quorum"])
def test_a_kill_in_the_middle(
    name: str, arguments: dict[str, object], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    letters = Letters(request.getfixturevalue(name).port, tmp_path, 3000, **arguments)
    bring_back(letters, 1, random.Random(0))


@pytest.fixture
def long() -> None:
    """Time for 100,000 messages."""
    signal.alarm(0)


@pytest.fixture(params=["3.10", "4.3", "own"])
def port(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[int]:
    directory = tmp_path / "broker"
    directory.mkdir()
    if request.param == "own":
        broker = OwnBroker(directory, "--data", str(directory / "data"))
        yield broker.port
        broker.kill()
        return
    with running(directory, installation("" if request.param == "3.10" else request.param)) as node:
        yield node.port


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("long")
@pytest.mark.parametrize("arguments", [{}, {"x_queue_type": "quorum"}], ids=["classic", "quorum"])
def test_a_hundred_thousand(port: int, tmp_path: Path, arguments: dict[str, object]) -> None:
    seed = int(os.environ.get("WORKBENCH_SEED", random.randrange(2**32)))
    LOG.info(f"WORKBENCH_SEED={seed}")
    letters = Letters(port, tmp_path, 100_000, **arguments)
    bring_back(letters, 10, random.Random(seed), 0.2)
