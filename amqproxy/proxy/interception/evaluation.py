"""The questions that an interceptor asks the rules of its session."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from amqproxy.amqp091.commands import Command
from amqproxy.peer import Peer
from amqproxy.proxy.interception.session_rules import SessionRules
from amqproxy.rules.context import ChannelInfo, Client, CommandContext
from amqproxy.rules.verdict import Verdict


class Evaluation(ABC):
    """Has the commands of one session evaluated, by the `evaluator` that the session has now.

    `failed` collects the names of rules that have failed. Rules look into bodies of `body_limit` bytes at most.
    """

    def __init__(
        self,
        evaluator: SessionRules,
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
        """Note the time of what is evaluated next, in seconds."""
        self.now = now

    @abstractmethod
    def refresh(self) -> None:
        """Forget what was asked of the evaluator: it, or what it knows of the client, has changed."""

    @abstractmethod
    def facts(self, number: int) -> ChannelInfo:
        """Return the facts about a channel that rules may ask for."""

    def covered(self, sender: Peer, command: Command) -> Command | None:
        """Return a command as taps may see it, without what rules redact; None where they may not see it."""
        return self.evaluator.covered(sender, command, self.body_limit)

    def know(self, client: Client) -> bool:
        """Note what is known of the client; whether that is more than before."""
        if client is self.client:
            return False
        self.client = client
        self.evaluator.know(client)
        return True

    def evaluate(self, sender: Peer, command: Command, channel: ChannelInfo) -> Verdict:
        """Return the verdict on a command of which all that its stage needs is there."""
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
