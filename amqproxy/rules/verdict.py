"""What is to become of a command: a value that the session's interceptor carries out."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Any

import msgspec
from msgspec.structs import replace

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import Scope, cut_reply_text
from amqproxy.amqp091.transitions import Peer


class Stage(IntEnum):
    """How much of a command must have come before it can be evaluated."""

    NOTHING = 0
    """No rule wants it: it passes."""
    METHOD = 1
    HEADER = 2
    BODY = 3


class Answer(StrEnum):
    """The reply to the sender of a message that is not sent on."""

    NOTHING = "nothing"
    ACK = "ack"
    """A publish: confirmed, if the channel confirms. A delivery: acknowledged to the broker."""
    NACK = "nack"
    """A publish: basic.nack, if the channel confirms; else the channel is closed with 403."""
    RETURN = "return"
    """A publish: basic.return, and then confirmed, if the channel confirms."""
    REJECT = "reject"
    """A delivery: rejected, so that it is dead-lettered or gone."""
    REQUEUE = "requeue"
    """A delivery: put back."""


class Close(msgspec.Struct, frozen=True):
    """The channel or the connection of the command is closed: for one side with this, for the other in good order.

    The client receives this, whichever peer sent the command, unless `receiver` is the broker. `farewell` is the text
    for the other one, where it is not the usual one. `named` is the method that `text` names, if it names one.
    """

    scope: Scope
    code: int
    text: str
    receiver: Peer | None = None
    farewell: str = ""
    named: str = ""


class Insertion(msgspec.Struct, frozen=True):
    """A command of our own for `to`, on its own channel, sent as soon as no content is under way there.

    Delivery tags and confirms are numbered when it is sent; the answer to a request is swallowed. `after` is seconds.
    It follows the command that it was decided on, or goes ahead of it; then it does not wait for what that waits for,
    and neither does one that comes `after`.
    """

    to: Peer
    command: Command
    after: float = 0.0
    is_ahead: bool = False


class HoldAction(msgspec.Struct, frozen=True):
    """The command, and what follows it on its channel, waits for an operator or until `timeout` (seconds).

    Then it passes, or is refused if not `passes_at_timeout`.
    """

    name: str
    timeout: float
    passes_at_timeout: bool = True


class ImposedImpairment(msgspec.Struct, frozen=True, kw_only=True):
    """`by` is the name of the rule that would have it so."""

    by: str = ""


class Impairment(ImposedImpairment, frozen=True, tag=True):
    """What is done to the bytes on their way to `to`, regardless of their meaning; each kind is a subclass.

    It lasts for `duration` seconds, or for as long as there is the rule.
    """

    to: Peer
    duration: float | None = None


class MirroredCopy(msgspec.Struct, frozen=True):
    """A copy of a publish, for another exchange or another upstream (a name of the config's; None: the same)."""

    command: Command
    upstream: str | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of one command. `command` is what goes on: the very one that was seen, another, or None: nothing.

    If nothing is sent on, `answer` is the reply to its sender. `delay` is how long the command waits first, and its
    channel behind it, in seconds; `behind` how many later commands of the same method on its channel overtake it.
    `shown` is the command as taps see it, where that differs. `is_final`: no later rule is asked. `marks` are the names
    of the rules that acted, `tags` the words that they gave the command. `damage` are the bits to flip in the bytes of
    its first frame, each by its byte's place and a mask.
    """

    command: Command | None
    answer: Answer = Answer.NOTHING
    returned: tuple[int, str] = (312, "NO_ROUTE")
    """The reply code and text of `Answer.RETURN`."""
    close: Close | None = None
    delay: float = 0.0
    behind: int = 0
    hold: HoldAction | None = None
    insertions: tuple[Insertion, ...] = ()
    impairments: tuple[Impairment, ...] = ()
    mirrored: tuple[MirroredCopy, ...] = ()
    shown: Command | None = None
    marks: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    failures: tuple[tuple[str, str], ...] = ()
    """The rules that failed, and how."""
    logged: tuple[tuple[str, str], ...] = ()
    """Level and text of what is to be logged."""
    damage: tuple[tuple[int, int], ...] = ()
    is_final: bool = False

    def naming(self, name: str) -> Verdict:
        """The same on the control or command of AMQP 0-10 with this name, for which its method stands."""
        close = self.close
        if close is None or not close.named:
            return self
        text = cut_reply_text(close.text.replace(close.named, name, 1))
        return replace(self, close=replace(close, text=text, named=name))

    def then(self, later: Verdict) -> Verdict:
        """Both joined, where `later` was decided on what this one sends on."""
        changes: dict[str, Any] = {}  # most verdicts do one thing or nothing, and making a new one takes longer
        if self.marks:
            changes["marks"] = self.marks + later.marks
        if self.tags:
            changes["tags"] = self.tags + later.tags
        if self.delay:
            changes["delay"] = self.delay + later.delay
        if self.insertions:
            changes["insertions"] = self.insertions + later.insertions
        if self.impairments:
            changes["impairments"] = self.impairments + later.impairments
        if self.mirrored:
            changes["mirrored"] = self.mirrored + later.mirrored
        if self.logged:
            changes["logged"] = self.logged + later.logged
        if self.failures:
            changes["failures"] = self.failures + later.failures
        if self.damage:
            changes["damage"] = self.damage + later.damage
        if self.behind > later.behind:
            changes["behind"] = self.behind
        if self.close is not None and later.close is None:
            changes["close"] = self.close
        if self.hold is not None:
            changes["hold"] = self.hold
        if self.shown is not None and later.shown is None:
            changes["shown"] = self.shown
        return replace(later, **changes) if changes else later
