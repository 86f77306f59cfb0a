"""How one kind of limit counts and decides."""

from __future__ import annotations

from typing import Any, Literal

from amqproxy.amqp091.frames import Allowance
from amqproxy.amqp091.transitions import Peer
from amqproxy.rules.context import Seen
from amqproxy.rules.rule import Memory
from amqproxy.rules.verdict import Stage, Verdict

Act = Literal["delay", "refuse", "block", "clamp"]
"""What is done about what goes over a limit."""


class Measure:
    """The part of a `Limit` that differs with what is limited; its methods are those of `Rule`, which see."""

    needs = Stage.METHOD

    def __init__(self, methods: frozenset[str], act: Act, code: int, text: str) -> None:
        self.methods = methods
        self.act = act
        self.code = code
        self.text = text

    def begin(self) -> Any:
        return None

    def begin_session(self) -> Any:
        return None

    def decide(self, seen: Seen, memory: Memory) -> Verdict:
        raise NotImplementedError

    def allowance(self, seen: Seen, memory: Memory) -> Allowance | None:
        return None

    def restores(self, sender: Peer) -> frozenset[str]:
        return frozenset()

    def restore(self, seen: Seen, memory: Memory) -> None:
        """Note what comes back; a limit changes nothing on its way."""

    def channel_closed(self, number: int, memory: Memory) -> None:
        """Give back what the channel had."""

    def session_over(self, memory: Memory) -> None:
        """Give back what the session had."""
