"""A proxy of one session, which a test plays: what a desk is asked about."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicPublish
from amqproxy.amqp091.properties import Properties
from amqproxy.control.desk import Desk, NotReloaded
from amqproxy.rules.judge import RuleSet
from tests.proxy.stage import OPEN, Stage, staged
from tests.rules.scene import rule

HOLD = """
    action = "hold"
    name = "look"
    timeout = 60
    match.method = ["basic.publish", "queue.declare", "basic.deliver", "queue.declare-ok"]
"""


class House:
    """What a desk knows of a proxy's server, and the stage of its one session."""

    def __init__(self, stage: Stage, rules: RuleSet, desk: Desk) -> None:
        self.stage = stage
        self.rules = rules
        self.desk = desk
        self.fault = ""
        self.restart: tuple[str, ...] = ()

    def reload(self) -> tuple[str, ...]:
        if self.fault:
            raise NotReloaded(self.fault)
        return self.restart

    @property
    def session(self) -> Any:
        return self.stage.session

    def says(self, routing_key: str = "a", body: bytes = b"body", **properties: Any) -> None:
        """Let the client publish."""
        command = Command(1, BasicPublish(exchange="x", routing_key=routing_key), Properties(**properties), body)
        self.stage.client.socket.send(command.encode(0))


@asynccontextmanager
async def opened(*rules: str) -> AsyncIterator[House]:
    """An open connection under these rules, and a desk that is asked at half past a thousand."""
    ruleset = RuleSet([rule(each) for each in rules or (HOLD,)])
    server = SimpleNamespace(sessions={}, rules=ruleset)
    async with staged(OPEN, rules=ruleset) as stage:
        server.sessions[stage.session.number] = stage.session
        house = House(stage, ruleset, Desk(server, lambda: house.reload(), now=lambda: 500.0, time=lambda: 1500.0))
        yield house
