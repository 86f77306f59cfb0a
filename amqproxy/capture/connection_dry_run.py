"""Dry run of rules on one captured connection, and its results."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.capture.decoded import DecodedFrames
from amqproxy.peer import Peer
from amqproxy.rules.context import ChannelInfo, Client, CommandContext
from amqproxy.rules.engine.describe import USUAL_WORDS, describe_verdict
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.verdict import Stage
from amqproxy.taps.text import clock


class DryRunResult(msgspec.Struct, frozen=True, kw_only=True):
    """A command that rules would have acted on: the actions in `what`, and the rules.

    `stream`, `connection` and `sender` are as in a `Record`; `method` is the name in the connection's protocol.
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


class ConnectionDryRun:
    """Base class of a connection's dry run: its evaluator, and the words for a client of its protocol."""

    words = USUAL_WORDS

    def __init__(self, rules: RuleSet, client: Client, chance: Callable[[], float]) -> None:
        self._evaluator = rules.evaluator(client)
        self._random = chance

    def play(self, passed: DecodedFrames) -> Iterator[DryRunResult | None]:
        """Yield the result for each command that these frames complete, and that rules see."""
        raise NotImplementedError

    def _judged(
        self,
        sender: Peer,
        command: Command,
        facts: ChannelInfo,
        passed: DecodedFrames,
        name: str,
    ) -> DryRunResult | None:
        """Return the result for a command of this `name`; None if it would pass unchanged."""
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
            random=self._random,
        )
        verdict = self._evaluator.evaluate(context).naming(name)
        what = describe_verdict(verdict, command, is_confirming=facts.is_confirming, words=self.words)
        if not what and not verdict.marks:
            return None
        return DryRunResult(
            ts_ns=passed.ts_ns,
            stream=passed.stream,
            connection=passed.connection,
            sender=passed.sender,
            channel=facts.number,
            method=name,
            rules=verdict.marks,
            what=what,
            tags=verdict.tags,
        )

    def _know(self, known: Client) -> None:
        """Update the client from the commands of its login."""
        if known is not self._evaluator.client:
            self._evaluator.know(known)
