"""A proxy of one session, which a test plays: what a handler is asked about."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicPublish
from amqproxy.amqp091.properties import Properties
from amqproxy.control.request_handler import NotReloaded, RequestHandler
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.taps.topology.observed_topology import ObservedTopology
from tests.proxy.stage import OPEN, Stage, staged
from tests.rules.scene import rule

HOLD = """
    action = "hold"
    name = "look"
    timeout = 60
    match.method = ["basic.publish", "queue.declare", "basic.deliver", "queue.declare-ok"]
"""


class FakeSessions:
    """What a handler knows of a proxy's server, and the stage of its one session."""

    def __init__(
        self,
        stage: Stage,
        rules: RuleSet,
        handler: RequestHandler,
        topology: ObservedTopology,
        sessions: dict[int, Any],
    ) -> None:
        self.stage = stage
        self.sessions = sessions
        self.rules = rules
        self.handler = handler
        self.topology = topology
        self.fault = ""
        self.restart: tuple[str, ...] = ()

    async def reload(self) -> tuple[str, ...]:
        if self.fault:
            raise NotReloaded(self.fault)
        return self.restart

    @property
    def session(self) -> Any:
        return self.stage.session

    def publish(self, routing_key: str = "a", body: bytes = b"body", **properties: Any) -> None:
        """Let the client publish."""
        command = Command(1, BasicPublish(exchange="x", routing_key=routing_key), Properties(**properties), body)
        self.stage.client.socket.send(command.encode(0))


@asynccontextmanager
async def opened(*rules: str) -> AsyncIterator[FakeSessions]:
    """An open connection under these rules, and a handler that is asked at half past a thousand."""
    ruleset = RuleSet([rule(each) for each in rules or (HOLD,)])
    topology = ObservedTopology()
    server = SimpleNamespace(sessions={}, rules=ruleset, topology=topology)
    async with staged(OPEN, rules=ruleset, topology=topology) as stage:
        server.sessions[stage.session.number] = stage.session
        house = FakeSessions(
            stage,
            ruleset,
            RequestHandler(server, lambda: house.reload(), now=lambda: 500.0, time=lambda: 1500.0),
            topology,
            server.sessions,
        )
        yield house
