"""Verdict on a command, which the session's interceptor carries out."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Any

import msgspec
from msgspec.structs import replace

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import Scope, cut_reply_text
from amqproxy.amqp091.transitions import Peer


class Stage(IntEnum):
    """Part of a command that must be received before it can be evaluated."""

    NOTHING = 0
    """No rule needs it: it passes."""
    METHOD = 1
    HEADER = 2
    BODY = 3


class Answer(StrEnum):
    """Reply to the sender of a message that is not forwarded."""

    NOTHING = "nothing"
    ACK = "ack"
    """A publish is confirmed if the channel confirms. A delivery is acknowledged to the broker."""
    NACK = "nack"
    """A publish gets basic.nack if the channel confirms; otherwise the channel is closed with 403."""
    RETURN = "return"
    """A publish gets basic.return, and is then confirmed if the channel confirms."""
    REJECT = "reject"
    """A delivery is rejected, so that the broker dead-letters or discards it."""
    REQUEUE = "requeue"
    """A delivery is requeued."""


class Close(msgspec.Struct, frozen=True):
    """Closes the channel or the connection of the command: for one peer with this code and text, for the other
    normally.

    The client receives them, whichever peer sent the command, unless `receiver` is the broker. `farewell` is the text
    for the other peer, if not the default. `named` is the method that `text` names, if any.
    """

    scope: Scope
    code: int
    text: str
    receiver: Peer | None = None
    farewell: str = ""
    named: str = ""


class Insertion(msgspec.Struct, frozen=True):
    """A command of the proxy for `to`, on its own channel, sent as soon as no content is in progress there.

    Delivery tags and confirms are numbered when it is sent; the answer to a request is discarded. `after` is in
    seconds. It follows the command that caused it, or precedes it if `is_ahead`; then it does not wait for what that
    command waits for, and neither does one with `after`.
    """

    to: Peer
    command: Command
    after: float = 0.0
    is_ahead: bool = False


class HoldAction(msgspec.Struct, frozen=True):
    """Holds the command, and later ones on its channel, for an operator or until `timeout` seconds have passed.

    Then it passes, or is refused if not `passes_at_timeout`.
    """

    name: str
    timeout: float
    passes_at_timeout: bool = True


class ImposedImpairment(msgspec.Struct, frozen=True, kw_only=True):
    """An impairment with `by`, the name of the rule that imposes it."""

    by: str = ""


class Impairment(ImposedImpairment, frozen=True, tag=True):
    """Impairment of the bytes in transit to `to`, regardless of their content; each kind is a subclass.

    It lasts for `duration` seconds, or for as long as the rule exists.
    """

    to: Peer
    duration: float | None = None


class MirroredCopy(msgspec.Struct, frozen=True):
    """A copy of a publish, for another exchange or another upstream (its configured name; `None`: the same)."""

    command: Command
    upstream: str | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Effect on one command. `command` is forwarded: the received command, another, or `None` for nothing.

    If nothing is forwarded, `answer` is the reply to its sender. `delay` is the time in seconds by which the command
    and its channel are delayed; `behind` is the number of later commands of the same method on its channel that
    overtake it. `shown` is the redacted command for taps. `is_final` ends evaluation. `marks` are the names of the
    rules that acted, `tags` the tags that they added. `damage` lists bits to flip in the first frame, as byte index and
    mask.
    """

    command: Command | None
    answer: Answer = Answer.NOTHING
    returned: tuple[int, str] = (312, "NO_ROUTE")
    """Reply code and text of `Answer.RETURN`."""
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
    """Names of the failed rules, with descriptions of the failures."""
    logged: tuple[tuple[str, str], ...] = ()
    """Level and text of lines to log."""
    damage: tuple[tuple[int, int], ...] = ()
    is_final: bool = False

    def naming(self, name: str) -> Verdict:
        """Return the verdict for another protocol's command that the method stands for, with its name in texts."""
        close = self.close
        if close is None or not close.named:
            return self
        text = cut_reply_text(close.text.replace(close.named, name, 1))
        return replace(self, close=replace(close, text=text, named=name))

    def then(self, later: Verdict) -> Verdict:
        """Join this verdict with `later`, which was decided on the command that this one forwards."""
        changes: dict[str, Any] = {}  # usually one change or none; a new struct takes longer
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
