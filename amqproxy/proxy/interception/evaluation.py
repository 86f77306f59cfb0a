"""Rule evaluation for the commands of one session."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from amqproxy.amqp091.commands import Command
from amqproxy.peer import Peer
from amqproxy.rules.context import ChannelInfo, Client, CommandContext
from amqproxy.rules.engine.evaluator import RuleEvaluator
from amqproxy.rules.verdict import Verdict


class Evaluation(ABC):
    """Evaluator of the commands of one session, by the session's current `evaluator`.

    `failed` collects the names of rules that have failed. Rules inspect bodies of `body_limit` bytes at most.
    """

    def __init__(
        self,
        evaluator: RuleEvaluator,
        client: Client,
        *,
        random: Callable[[], float],
        time: Callable[[], float],
        body_limit: int,
    ) -> None:
        self.evaluator = evaluator
        self.client = client
        self.failed: list[str] = []
        self.random = random
        self.time = time
        self.body_limit = body_limit
        self.now = 0.0

    def begin_turn(self, now: float) -> None:
        """Set the time of the following evaluations, in seconds."""
        self.now = now

    @abstractmethod
    def refresh(self) -> None:
        """Clear cached results, since the evaluator or its view of the client has changed."""

    @abstractmethod
    def facts(self, number: int) -> ChannelInfo:
        """Return the facts about a channel that rules may use."""

    def covered(self, sender: Peer, command: Command) -> Command | None:
        """Return a command as taps may see it, redacted; `None` if it may not be shown at all."""
        return self.evaluator.covered(sender, command, self.body_limit)

    def know(self, client: Client) -> bool:
        """Update the client; return whether it has changed."""
        if client is self.client:
            return False
        self.client = client
        self.evaluator.know(client)
        return True

    def evaluate(self, sender: Peer, command: Command, channel: ChannelInfo) -> Verdict:
        """Return the verdict on a command of which everything its stage needs is available."""
        verdict = self.evaluator.evaluate(
            CommandContext(
                sender=sender,
                command=command,
                client=self.client,
                channel=channel,
                now=self.now,
                time=self.time(),
                random=self.random,
                body_limit=self.body_limit,
            )
        )
        if verdict.failures:
            self.failed += [rule for rule, _ in verdict.failures]
        return verdict
