"""One compiled rule: its conditions grouped by the facts that they read, and the kinds of rule that it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

from amqproxy.amqp091.pass_cache import Credit
from amqproxy.amqp091.transitions import SENDERS, SERVER, Peer
from amqproxy.rules.context import BodyTooLarge, CommandContext
from amqproxy.rules.engine.outcome import OutcomeCounts
from amqproxy.rules.matching.attributes import SENT_LATER, AttributeSource
from amqproxy.rules.matching.condition import Condition
from amqproxy.rules.matching.match import HEARTBEAT
from amqproxy.rules.matching.patterns import predicate
from amqproxy.rules.rule import Cacheable, ImpairsStream, Reversible, Rule, RuleState, Stateful
from amqproxy.rules.scripting.script_loader import ScriptError
from amqproxy.rules.sendable import Unsendable
from amqproxy.rules.verdict import Stage


class CompiledRule:
    """A rule at its `place` in the order, with the state that all sessions share."""

    __slots__ = (
        "_cacheable",
        "_senders",
        "_stateful",
        "_uncertain",
        "allowed_body_if_plain",
        "at_start",
        "client_conditions",
        "counts",
        "drops_confirms",
        "exchange_matches",
        "is_cacheable",
        "is_cacheable_if_plain",
        "is_late",
        "is_shadow",
        "last_place",
        "may_have_allowance",
        "may_have_allowance_if_plain",
        "method_conditions",
        "methods",
        "other_conditions",
        "place",
        "reads_unacked",
        "reversible",
        "rule",
        "shared",
        "stage",
    )

    def __init__(
        self,
        rule: Rule,
        place: int,
        conditions: tuple[Condition, ...],
        counts: OutcomeCounts,
        *,
        before: CompiledRule | None = None,
        within: Rule | None = None,
        last_place: int = -1,
    ) -> None:
        """`before` is the rule of the same name before a reload; `within` is the rule that this one is a part of, and
        `last_place` the place of its last part.
        """
        self.rule = rule
        self._cacheable = rule if isinstance(rule, Cacheable) else None
        self._stateful = rule if isinstance(rule, Stateful) else None
        self.reversible = rule if isinstance(rule, Reversible) else None
        self.at_start = rule if isinstance(rule, ImpairsStream) and rule.acts_at_start else None
        """The rule, if it acts on connections as a whole."""
        self.place = place
        self.shared: Any = None
        """State that the rule keeps for all sessions together."""
        if self._stateful is not None:
            continues = before is not None and self._stateful.continues(before.rule)
            self.shared = before.shared if before is not None and continues else self._stateful.begin()
        self.counts = counts
        self.last_place = last_place
        """Place after which evaluation continues once the rule has decided; -1 if that depends on the verdict."""
        wholes = (rule, within) if within else (rule,)
        self.is_shadow = rule.mode == "shadow"
        self.client_conditions = tuple([each for each in conditions if each.source is AttributeSource.CLIENT])
        self.method_conditions = tuple([each for each in conditions if each.source is AttributeSource.METHOD])
        self.other_conditions = tuple(
            [each for each in conditions if each not in self.client_conditions + self.method_conditions]
        )
        self.stage = max([rule.needs, *[each.stage for each in conditions]])
        """Part of a command that must be received before the rule can be evaluated."""
        is_constant = self._cacheable is not None and self._cacheable.is_constant
        self.is_cacheable = is_constant and self.stage <= Stage.METHOD and not self.other_conditions
        """Whether the decision depends on the method alone, for one client, at any time."""
        has_allowance = self._cacheable is not None and not is_constant
        self.may_have_allowance = has_allowance and self.stage <= Stage.METHOD and not self.other_conditions
        """Whether the rule may grant an allowance for commands to pass."""
        knows_names = all(each.reads_header_names for each in self.other_conditions)
        reads_names_only = rule.needs <= Stage.METHOD and knows_names
        self.is_cacheable_if_plain = is_constant and reads_names_only
        self.may_have_allowance_if_plain = has_allowance and reads_names_only
        """Like the two above, for publishes whose header names no further queues or exchanges (CC, BCC, reply-to)."""
        self.allowed_body_if_plain = self._cacheable.allowed_body if self._cacheable and knows_names else None
        """Body size up to which such publishes pass without effect; `None` if the size alone does not tell."""
        self.is_late = any(each.reads & SENT_LATER for each in conditions)
        """Whether it depends on facts that a client sends only after it has connected."""
        self.reads_unacked = rule.reads_unacked or any("channel.unacked" in each.reads for each in conditions)
        self.methods = frozenset.intersection(*[_methods(each) for each in wholes])
        self._senders = {each.match.sender for each in wholes} - {None}
        asked_of_confirms = any(self.may_ask_about(SERVER, name) for name in ("basic.ack", "basic.nack"))
        self.drops_confirms = rule.drops_confirms and asked_of_confirms and not self.is_shadow
        self._uncertain: CompiledRule | None = None
        self.exchange_matches = None if rule.match.exchange is None else predicate(rule.match.exchange)
        """Test whether `match` holds for the name of an exchange; `None` if it holds for all."""

    def for_client(self, probe: CommandContext) -> CompiledRule | None:
        """Return the rule if its client conditions hold; `None` if they do not.

        If that cannot be known, for example because an expression fails on the client's properties, return a copy that
        checks the conditions for every command and refuses it: no command passes because of a failing expression.
        """
        try:
            return self if all(each.holds(probe) for each in self.client_conditions) else None
        except Exception:  # noqa: BLE001 - it is raised again for each command, and then counts
            if self._uncertain is None:
                self._uncertain = copy(self)
                self._uncertain.other_conditions = self.client_conditions + self.other_conditions
                self._uncertain.is_cacheable = self._uncertain.may_have_allowance = False
                self._uncertain.is_cacheable_if_plain = self._uncertain.may_have_allowance_if_plain = False
                self._uncertain.allowed_body_if_plain = None
            return self._uncertain

    @contextmanager
    def counting_failures(self) -> Iterator[None]:
        """Count a failure of the rule where no command can be refused."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - it may raise anything
            self.counts.fail(account(self.rule, error))

    def may_ask_about(self, sender: Peer, method: str) -> bool:
        """Whether the rule may hold for a method, by its name and sender."""
        return (
            method in self.methods
            and self._senders <= {sender}
            and (method == HEARTBEAT or sender in SENDERS[method])
            and self.at_start is None
        )

    def may_restore(self, sender: Peer, method: str) -> bool:
        """Whether the rule's `restore` must be called for a method."""
        reversible = self.reversible
        if reversible is None or (self.is_shadow and not reversible.only_counts):
            return False
        return method in reversible.restores(sender)

    def allowance(self, context: CommandContext, memory: RuleState) -> Credit | None:
        """Return the number of commands that pass without a decision; `None` if each needs one."""
        return None if self._cacheable is None else self._cacheable.allowance(context, memory)

    # --- what it remembers

    def begin_session(self) -> RuleState:
        """Return the state of the rule for a new session."""
        return RuleState(self.shared, None if self._stateful is None else self._stateful.begin_session())

    def continues(self, before: CompiledRule) -> bool:
        """Whether the rule continues the session state of the rule of the same name before a reload."""
        return self._stateful is not None and self.shared is before.shared and self._stateful.continues(before.rule)

    # --- does it match?

    def method_conditions_hold(self, context: CommandContext) -> bool:
        """Whether all conditions that need only the method hold."""
        return all(each.holds(context) for each in self.method_conditions)

    def other_conditions_hold(self, context: CommandContext) -> bool:
        """Whether all other conditions hold."""
        for each in self.other_conditions:  # noqa: SIM110 - called for each command; twice as fast
            if not each.holds(context):
                return False
        return True


def _methods(rule: Rule) -> frozenset[str]:
    matched = rule.matched
    return matched if rule.methods is None else matched & rule.methods


def account(rule: Rule, error: Exception) -> str:
    """Describe the failure of a rule, without data that a peer may have sent."""
    if isinstance(error, ScriptError):
        return f"rule '{rule.name}' failed: {error.outline}"
    if isinstance(error, (Unsendable, BodyTooLarge)):
        return f"rule '{rule.name}' failed: {error}"
    place, following = "", error.__traceback__
    while following is not None:
        code = following.tb_frame.f_code
        place = f"{code.co_filename.rpartition('/')[2]}, line {following.tb_lineno}"
        following = following.tb_next
    return f"rule '{rule.name}' failed: {type(error).__name__} in {place}"
