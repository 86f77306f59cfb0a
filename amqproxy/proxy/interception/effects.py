"""Side effects of an interceptor, besides its output for both peers."""

from __future__ import annotations

from typing import Any

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import ProtocolError, Scope
from amqproxy.amqp091.transitions import Peer
from amqproxy.rules.verdict import Close, Impairment, MirroredCopy, Verdict


class InterceptorEffects(msgspec.Struct):
    """Side effects besides the output for the two peers; the session carries them out."""

    impairments: list[Impairment] = []
    mirrored: list[MirroredCopy] = []
    logged: list[tuple[str, str]] = []
    failed: list[str] = []
    """Names of rules that have failed."""
    refused: list[tuple[Peer, Command, Verdict]] = []
    """Commands that were refused or dropped, with their senders and verdicts."""
    held: list[int] = []
    """Numbers of commands that are newly held."""

    def add(self, sender: Peer, command: Command, verdict: Verdict) -> None:
        """Collect the side effects of a verdict."""
        self.impairments += verdict.impairments
        self.mirrored += verdict.mirrored
        self.logged += verdict.logged
        if verdict.command is None and verdict.marks:
            self.refused.append((sender, command, verdict))


class ConnectionRefusal(ProtocolError):
    """A rule closes the connection, with any code and text."""

    name = "REFUSED"

    def __init__(self, close: Close) -> None:
        super().__init__(close.text, scope=Scope.CONNECTION)
        self.code = close.code  # type: ignore[misc]

    @property
    def reply_text(self) -> str:
        return self.text


class InterceptorFault(Exception):
    """A delayed or held command of `sender` cannot be processed because of `error`."""

    def __init__(self, sender: Peer, error: Any) -> None:
        super().__init__(str(error))
        self.sender = sender
        self.error = error
