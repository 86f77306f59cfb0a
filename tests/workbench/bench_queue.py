"""A queue of a broker on a port, filled and emptied by pika, and runs of the workbench over it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import trio
from pika.adapters.blocking_connection import BlockingChannel

from amqproxy.configuration.upstream_config import UpstreamConfig
from amqproxy.moving.message_forwarder import MoveFailed
from amqproxy.moving.move_job import MoveEnd
from amqproxy.rules.matching.filters import compiled
from amqproxy.workbench.destination import Destination
from amqproxy.workbench.disturbance import Disturbance
from amqproxy.workbench.held_message import HeldMessage
from amqproxy.workbench.move import Change
from amqproxy.workbench.peek import peek
from amqproxy.workbench.queue_facts import Given, QueueFacts
from amqproxy.workbench.queue_pass import Action, Outcome, Selection
from amqproxy.workbench.run_report import RunReport
from amqproxy.workbench.runs import Bench, BenchQueue, RunPlan, Told, look_through, move, noted, opened

Got = tuple[Any, pika.BasicProperties, bytes]

QUORUM = {"x-queue-type": "quorum"}


class BenchAt:
    """The broker at `port`; queues have names of their own."""

    def __init__(self, port: int, state: Path | None = None) -> None:
        self.port = port
        self.state = state
        self.warnings: list[str] = []
        self.said: list[str] = []

    @property
    def end(self) -> MoveEnd:
        return MoveEnd(upstream=UpstreamConfig(address=f"127.0.0.1:{self.port}"), user="guest", password="guest")

    @contextmanager
    def channel(self) -> Iterator[BlockingChannel]:
        with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port)) as connection:
            yield connection.channel()

    def declare(self, name: str = "", **arguments: Any) -> str:
        """Declare a durable queue, with arguments such as x_queue_type; return its name."""
        name = name or f"bench.{secrets.token_hex(4)}"
        table = {key.replace("_", "-"): value for key, value in arguments.items()}
        with self.channel() as channel:
            channel.queue_declare(name, durable=True, arguments=table)
        return name

    def publish(self, queue: str, bodies: Iterable[bytes], exchange: str = "", **properties: Any) -> None:
        with self.channel() as channel:
            channel.confirm_delivery()
            for body in bodies:
                channel.basic_publish(exchange, queue, body, pika.BasicProperties(**properties))

    def numbered(self, count: int, **arguments: Any) -> str:
        """Declare a queue with messages that have their number as body, header n and message_id."""
        queue = self.declare(**arguments)
        with self.channel() as channel:
            channel.confirm_delivery()
            for number in range(count):
                properties = pika.BasicProperties(headers={"n": number}, message_id=str(number), delivery_mode=2)
                channel.basic_publish("", queue, b"%d" % number, properties)
        return queue

    def taken(self, queue: str) -> list[Got]:
        """Take all messages of a queue."""
        found = []
        with self.channel() as channel:
            while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
                found.append(got)
        return found

    def bodies(self, queue: str) -> list[bytes]:
        return [body for _, _, body in self.taken(queue)]

    def depth(self, queue: str) -> int:
        with self.channel() as channel:
            return int(channel.queue_declare(queue, passive=True).method.message_count)

    # --- runs

    def peeked(self, queue: str, given: Given = Given(type="classic"), **selection: Any) -> list[HeldMessage]:  # noqa: B008
        seen: list[HeldMessage] = []

        async def work(bench: Bench, plan: RunPlan, told: Told, report: RunReport) -> None:
            await peek(bench, plan, told, report, seen.append)

        self.report = self.run("peek", queue, work, given, **selection)
        return seen

    def moved(
        self,
        queue: str,
        destination: Destination,
        given: Given = Given(type="classic"),  # noqa: B008
        *,
        change: Change | None = None,
        note: Callable[[HeldMessage], None] = lambda message: None,
        end: MoveEnd | None = None,
        **selection: Any,
    ) -> RunReport:
        async def work(bench: Bench, plan: RunPlan, told: Told, report: RunReport) -> None:
            await move(bench, destination, plan, told, report, change=change, note=note, end=end)

        return self.run("move", queue, work, given, **selection)

    def settled(self, queue: str, action: Action, given: Given = Given(type="classic"), **selection: Any) -> RunReport:  # noqa: B008
        async def work(bench: Bench, plan: RunPlan, told: Told, report: RunReport) -> None:
            await look_through(bench, action, plan, told, report)

        return self.run("drain", queue, work, given, **selection)

    def run(
        self,
        command: str,
        queue: str,
        work: Callable[..., Any],
        given: Given,
        *,
        is_dry_run: bool = False,
        begun: Callable[[Any], None] = lambda running: None,
        **selection: Any,
    ) -> RunReport:
        if isinstance(selection.get("where"), str):
            selection["where"] = compiled(selection["where"])
        plan = RunPlan(
            command=command,
            selection=Selection(**selection),
            state=self.state,
            audit=None if self.state is None else self.state / "audit.jsonl",
            is_dry_run=is_dry_run,
        )
        report = RunReport()

        def before(facts: QueueFacts, disturbance: Disturbance) -> None:
            self.said = list(disturbance.lines)

        told = Told(before=before, warn=self.warnings.append, begun=begun)
        at = BenchQueue(end=self.end, vhost="/", name=queue, given=given)

        async def main() -> None:
            with trio.fail_after(120):
                async with noted(plan, report, {"queue": queue}), opened(at) as bench:
                    await work(bench, plan, told, report)

        trio.run(main)
        return report


class Ends:
    """An action that does what another one does, and then ends as a killed process would."""

    uncertain = 0

    def __init__(self, bench: BenchAt, target: str) -> None:
        self.bench = bench
        self.target = target

    async def settle(self, messages: Sequence[HeldMessage]) -> Sequence[Outcome]:
        self.bench.publish(self.target, [message.body for message in messages])
        raise MoveFailed("killed")
