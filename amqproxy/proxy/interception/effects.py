"""What an interceptor wants of its session, besides sending what it has for both peers."""

from __future__ import annotations

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import ProtocolError, Scope
from amqproxy.amqp091.transitions import Peer
from amqproxy.rules.verdict import Close, Impairment, MirroredCopy, Verdict


class InterceptorEffects(msgspec.Struct):
    """Effects besides what is sent to the two peers; the session carries them out."""

    impairments: list[Impairment] = []
    mirrored: list[MirroredCopy] = []
    logged: list[tuple[str, str]] = []
    failed: list[str] = []
    """The names of rules that have failed."""
    refused: list[tuple[Peer, Command, Verdict]] = []
    """Commands that go no further, and whose they were."""
    held: list[int] = []
    """The numbers of commands that wait to be released from now on."""

    def add(self, sender: Peer, command: Command, verdict: Verdict) -> None:
        """What a verdict wants done besides, at once."""
        self.impairments += verdict.impairments
        self.mirrored += verdict.mirrored
        self.logged += verdict.logged
        if verdict.command is None and verdict.marks:
            self.refused.append((sender, command, verdict))


class ConnectionRefusal(ProtocolError):
    """A rule wants the connection closed, with any code and text there may be."""

    name = "REFUSED"

    def __init__(self, close: Close) -> None:
        super().__init__(close.text, scope=Scope.CONNECTION)
        self.code = close.code  # type: ignore[misc]

    @property
    def reply_text(self) -> str:
        return self.text


class InterceptorFault(Exception):
    """What `sender` has sent, and what waited since, cannot go on for `error`."""

    def __init__(self, sender: Peer, error: ProtocolError) -> None:
        super().__init__(str(error))
        self.sender = sender
        self.error = error
