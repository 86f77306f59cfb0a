"""What all rules share: a name, what they match, and how they decide."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from amqproxy.amqp091.grammar import Peer
from amqproxy.rules.match import Match
from amqproxy.rules.seen import Seen
from amqproxy.rules.verdict import Stage, Verdict


class Memory:
    """What a rule remembers, since it itself never changes. Both are what its `begin` and `begin_session` made.

    `shared` is of all sessions, and outlives a reload in which the rule is the same; `own` is of one session.
    """

    __slots__ = ("own", "shared")

    def __init__(self, shared: Any, own: Any) -> None:
        self.shared = shared
        self.own = own


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="action"):
    """One rule of the config. Its action is its subclass, each in a file of its own.

    `when` is a CEL expression over the names in `names`. In mode "shadow" it counts what it would have done.
    """

    name: str
    match: Match = Match()
    when: str = ""
    mode: Literal["enforce", "shadow"] = "enforce"

    needs: ClassVar[Stage] = Stage.METHOD
    """How much of a command the action itself reads or changes, besides what `match` and `when` do."""
    is_constant: ClassVar[bool] = False
    """Does `decide` come to the same for the same command of the same client, at any time? Then it is asked once."""
    methods: ClassVar[frozenset[str] | None] = None
    """The methods that the action can do something about; None: all. Others are never shown to it."""

    def begin(self) -> Any:
        """What the rule remembers of all sessions."""
        return None

    def begin_session(self) -> Any:
        """What the rule remembers of one session."""
        return None

    def decide(self, seen: Seen, memory: Memory) -> Verdict:
        """What is to become of a command for which the match and `when` hold. Whatever it raises is 541."""
        raise NotImplementedError

    def restores(self, sender: Peer) -> frozenset[str]:
        """The methods of `sender` that may bring back names which this rule has changed in the other direction."""
        return frozenset()

    def restore(self, seen: Seen, memory: Memory) -> Verdict:
        """The command with the names that its receiver knows; asked in reverse order, whatever `match` says."""
        return Verdict(command=seen.command)
