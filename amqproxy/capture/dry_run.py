"""What rules would have made of the traffic in a capture.

Each command is evaluated as it was captured: a channel that a rule would have closed, or a reply that it would have
dropped, changes nothing for later commands.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import ChannelCloseOk, ConfirmSelect, Method, TxSelect
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.capture.command_gatherer import CommandGatherer
from amqproxy.capture.decoded import DecodedFrames
from amqproxy.rules.client_info import updated_client
from amqproxy.rules.context import ChannelInfo, Client, CommandContext
from amqproxy.rules.engine.describe import describe_verdict
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.rule import Rule
from amqproxy.rules.verdict import Stage
from amqproxy.taps.text import clock

SEED = 0
"""What chance goes by, so that two rehearsals are alike."""


class DryRunResult(msgspec.Struct, frozen=True, kw_only=True):
    """A command that rules would have acted on: `what` they would have done to it, and which they were.

    `stream`, `connection` and `sender` are as in a `Record`.
    """

    ts_ns: int
    stream: int
    connection: str
    sender: str
    channel: int
    method: str
    rules: tuple[str, ...]
    what: tuple[str, ...]
    tags: tuple[str, ...] = ()

    def __str__(self) -> str:
        arrow = ">" if self.sender == "client" else "<"
        what, rules = "; ".join(self.what) or "allowed", ", ".join(self.rules)
        return f"{clock(self.ts_ns)} #{self.stream} {arrow} {self.channel} {self.method}: {what}  [{rules}]"


class DryRun:
    """Judges what passed on the connections of a capture, each from its beginning."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = RuleSet(rules)
        self.commands = 0
        self._random = random.Random(SEED).random
        self._parts: dict[int, _ConnectionDryRun] = {}

    def play(self, passed: DecodedFrames) -> Iterator[DryRunResult]:
        """What would have been done to the commands that these frames complete."""
        part = self._parts.get(passed.stream)
        if part is None:
            client = Client.named(passed.stream, passed.connection)
            part = self._parts[passed.stream] = _ConnectionDryRun(self.rules, client)
        sender = Peer(passed.sender)
        for frame in passed.frames:
            command = part.gatherer.gather(sender, frame)
            if command is None:
                continue
            self.commands += 1
            rehearsed = part.evaluate(sender, command, passed, self._random)
            if rehearsed is not None:
                yield rehearsed

    def end(self, stream: int) -> None:
        """A connection is over; a later one may have its number, in another capture."""
        self._parts.pop(stream, None)


class _ConnectionDryRun:
    """One connection."""

    def __init__(self, rules: RuleSet, client: Client) -> None:
        self._evaluator = rules.evaluator(client)
        self.gatherer = CommandGatherer()
        self._modes: dict[int, type[Method]] = {}

    def evaluate(
        self, sender: Peer, command: Command, passed: DecodedFrames, chance: Callable[[], float]
    ) -> DryRunResult | None:
        """What would become of a command; None where it would just pass."""
        number = command.channel
        name = "heartbeat" if command.index < 0 else command.method.name
        facts = ChannelInfo(
            number=number,
            is_confirming=self._modes.get(number) is ConfirmSelect,
            is_transactional=self._modes.get(number) is TxSelect,
        )
        if command.index >= 0:
            self._learn(sender, number, command.method)
        if self._evaluator.stage(sender, command.frames[0], facts) is Stage.NOTHING:
            return None
        seconds = passed.ts_ns / 1e9
        context = CommandContext(
            sender=sender,
            command=command,
            client=self._evaluator.client,
            channel=facts,
            now=seconds,
            time=seconds,
            random=chance,
        )
        verdict = self._evaluator.evaluate(context)
        what = describe_verdict(verdict, command)
        if not what and not verdict.marks:
            return None
        return DryRunResult(
            ts_ns=passed.ts_ns,
            stream=passed.stream,
            connection=passed.connection,
            sender=passed.sender,
            channel=number,
            method=name,
            rules=verdict.marks,
            what=what,
            tags=verdict.tags,
        )

    def _learn(self, sender: Peer, number: int, method: Method) -> None:
        """Follow what decides about later commands: who the client is, and the modes of its channels."""
        if sender is CLIENT and number == 0:
            known = updated_client(self._evaluator.client, method)
            if known is not self._evaluator.client:
                self._evaluator.know(known)
        elif isinstance(method, (ConfirmSelect, TxSelect)):
            self._modes[number] = type(method)
        elif isinstance(method, ChannelCloseOk):
            self._modes.pop(number, None)
            self._evaluator.channel_closed(number)
