"""Evaluation of rules on the commands of a session.

Rules decide in the order of the configuration, each on the command as earlier rules changed it, until a verdict is
final. Rules see the client's names: renamed objects are restored in the server's commands before rules decide, and
replaced in the client's commands afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from amqproxy.amqp091.commands import MAX_BODY, Command
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.methods import (
    ConnectionOpenOk,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.rules.access.acl import parts_of
from amqproxy.rules.context import ChannelInfo, Client, CommandContext
from amqproxy.rules.engine.compiled_rule import CompiledRule, account
from amqproxy.rules.engine.decision_cache import MAX_KEY_SIZE, CachedDecision, CachedPasses, cache_key
from amqproxy.rules.engine.last_queue import LastQueues
from amqproxy.rules.engine.method_analysis import MethodAnalysis, PassTerms
from amqproxy.rules.engine.outcome import Outcome, OutcomeCounts
from amqproxy.rules.engine.redactions import Redactions
from amqproxy.rules.engine.rule_calls import RuleCalls
from amqproxy.rules.engine.rule_index import RuleIndex
from amqproxy.rules.engine.rule_states import RuleStates
from amqproxy.rules.matching.filters import compiled
from amqproxy.rules.rule import Rule, Stateful
from amqproxy.rules.verdict import Impairment, Stage, Verdict

MAX_INDEXES = 256
"""Maximum number of cached indexes: one for each set of rules that can match a client."""

MAX_CACHED = 512
"""Maximum number of decisions that a session caches for each peer."""


class RuleSet:
    """The rules of one configuration, with the state that sessions share. Immutable: a reload creates another.

    `temporary` rules precede those of the configuration, `bridging` ones follow them; both outlive reloads.
    """

    def __init__(
        self,
        rules: Iterable[Rule],
        previous: RuleSet | None = None,
        temporary: Iterable[Rule] = (),
        bridging: Iterable[Rule] = (),
    ) -> None:
        self.lasting = tuple(rules)
        names = {rule.name for rule in self.lasting}
        self.temporary = tuple(rule for rule in temporary if rule.name not in names)
        self._bridging = tuple(bridging)
        self.bridging = tuple(rule for rule in self._bridging if rule.name not in names)
        self.rules = (*self.temporary, *self.lasting, *self.bridging)
        before = {case.rule.name: case for case in previous.cases} if previous else {}
        counts = previous.counts() if previous else {}
        self._counts = {rule.name: counts.get(rule.name) or OutcomeCounts() for rule in self.rules}
        cases: list[CompiledRule] = []
        for rule in self.rules:
            cases += _cases(rule, len(cases), before, self._counts[rule.name])
        self.cases: tuple[CompiledRule, ...] = tuple(cases)
        self.must_read = any(
            rule.mode == "enforce" and not rule.may_be_bypassed for rule in (*self.temporary, *self.lasting)
        )
        """Whether a rule decides about clients, so that it needs to read their protocol. A bridge is of 0-9-1 only."""
        self._indexes: dict[tuple[CompiledRule, ...], RuleIndex] = {}

    def evaluator(self, client: Client) -> RuleEvaluator:
        """Return the evaluator of one session."""
        return RuleEvaluator(self, client)

    def replaced(self, rules: Iterable[Rule], temporary: Iterable[Rule] | None = None) -> RuleSet:
        """Return the rule set of a new configuration; rules that continue an old rule keep its state and counters.

        The temporary rules stay, except those whose name a new rule has, or are replaced.
        """
        return RuleSet(rules, self, self.temporary if temporary is None else temporary, self._bridging)

    def continued_from(self, previous: RuleSet) -> set[str]:
        """Return the names of the rules that continue the state of `previous`."""
        before = {rule.name: rule for rule in previous.rules}
        return {
            rule.name
            for rule in self.rules
            if isinstance(rule, Stateful) and rule.name in before and rule.continues(before[rule.name])
        }

    def counts(self) -> dict[str, OutcomeCounts]:
        """Return the live outcome counters by rule name."""
        return self._counts

    def index(self, cases: tuple[CompiledRule, ...], retired: tuple[CompiledRule, ...]) -> RuleIndex:
        """Return the index for a client that these rules can match; clients with the same rules share one."""
        if retired:
            return RuleIndex(cases, retired)
        index = self._indexes.get(cases)
        if index is None:
            if len(self._indexes) >= MAX_INDEXES:
                self._indexes.clear()
            index = self._indexes[cases] = RuleIndex(cases)
        return index


def _cases(rule: Rule, place: int, before: Mapping[str, CompiledRule], counts: OutcomeCounts) -> Iterator[CompiledRule]:
    """Yield the compiled rule, or its parts, starting at `place`."""
    conditions = rule.conditions()
    if rule.when:
        conditions = (*conditions, compiled(rule.when).condition)
    parts = parts_of(rule)
    for number, part in enumerate(parts):
        old = before.get(part.name)
        if part is rule:
            yield CompiledRule(part, place, conditions, counts, before=old)
        else:
            every = (*part.conditions(), *conditions)
            last = place + len(parts) - 1
            yield CompiledRule(part, place + number, every, counts, before=old, within=rule, last_place=last)


class RuleEvaluator:
    """Rule evaluator of one session."""

    def __init__(
        self,
        ruleset: RuleSet,
        client: Client,
        *,
        states: RuleStates | None = None,
        last_queues: LastQueues | None = None,
        retired: tuple[CompiledRule, ...] = (),
        era: int = 0,
    ) -> None:
        """Start a new session, unless earlier state is given; `retired` are rules from before a reload that still
        restore names.
        """
        self.ruleset = ruleset
        self.era = era
        """Number that increases when cached decisions become invalid."""
        self._states = states or RuleStates()
        self._last_queues = last_queues or LastQueues()
        self._retired = retired
        self.know(client)

    def know(self, client: Client) -> None:
        """Use new client facts.

        Call it as soon as the client has sent its user, properties or vhost, before the command that contains them is
        evaluated.
        """
        self.client = client
        probe = CommandContext(sender=CLIENT, command=_NOTHING, client=client)
        asked = [case.for_client(probe) for case in self.ruleset.cases]
        cases = tuple([case for case in asked if case is not None])
        self._index = self.ruleset.index(cases, self._retired)
        self._redactions = Redactions(self._index.cases, self._states, client)
        self._calls = RuleCalls(self._states, self._redactions)
        self._analysis = MethodAnalysis(self._index, self._last_queues, self._calls)
        self._cached: dict[Peer, dict[bytes, CachedDecision]] = {CLIENT: {}, SERVER: {}}
        self._last: tuple[Frame | None, CachedDecision | None] = (None, None)
        self.era += 1

    def wants(self, sender: Peer) -> bytes:
        """Return a mask of the methods of `sender` to stage, 1 at each method index, as `FrameReader.want` takes it."""
        return self._index.wants[sender]

    def wants_all(self, sender: Peer) -> bool:
        """Whether heartbeats must be staged too."""
        return self._index.heartbeats[sender] is not None

    @property
    def may_act(self) -> bool:
        """Whether any rule can match the client, or still restores names."""
        return bool(self._index.cases or self._retired)

    @property
    def reads_unacked(self) -> bool:
        """Whether `ChannelInfo.unacked` must be counted."""
        return any(case.reads_unacked for case in self._index.cases)

    @property
    def drops_confirms(self) -> bool:
        """Whether rules may withhold the broker's confirms from the client."""
        return any(case.drops_confirms for case in self._index.cases)

    def stage(self, sender: Peer, frame: Frame, channel: ChannelInfo) -> Stage:
        """Return the part of a command that must be received before evaluation; NOTHING if it passes without.

        `frame` is its first. Raise `ProtocolError` if the method is malformed.
        """
        known = self._cached[sender].get(cache_key(frame))
        if known is None:
            known = self._cache(sender, frame, channel)
        if known.is_passing:
            known.count()
            return Stage.NOTHING
        self._last = (frame, known)
        return known.stage

    def passing(self, sender: Peer, frame: Frame, channel: ChannelInfo, now: float) -> CachedPasses | None:
        """Return the outcome of commands with this `cache_key` without evaluation, in this `era`; `None` if it is
        needed.

        A caller that forwards such a command without staging calls `CachedPasses.count`. Evaluated commands use up the
        allowances as well.
        """
        known = self._cached[sender].get(cache_key(frame))
        if known is None:
            known = self._cache(sender, frame, channel)
        if known.is_final:
            return CachedPasses(known, ()) if known.goes_on_alike else None
        if not known.may_pass_unevaluated:
            return None
        terms = PassTerms()
        context = CommandContext(
            sender=sender, command=Command.received([frame]), client=self.client, channel=channel, now=now
        )
        passing = self._analysis.decision(context, terms)
        if not (passing.is_final and passing.goes_on_alike):
            known.may_pass_unevaluated = False
            return None
        return CachedPasses(passing, tuple(terms.allowances), terms.if_plain, terms.largest)

    def evaluate(self, context: CommandContext) -> Verdict:
        """Return the verdict on a command, received as far as `stage` requires.

        A rule that raises refuses the command. Raise `ProtocolError` if the command is malformed, which is its sender's
        fault.
        """
        if self._index.tracks_last_queues:
            if context.sender is CLIENT and self._last_queues.concerns(context.command):
                return self._evaluated_by_name(context)
            if context.sender is SERVER and context.command.index == QueueDeclareOk.index:
                verdict = self._evaluated(context)
                if verdict.command is not None:
                    self._last_queues.name(context.command.channel, verdict.command.method.queue)
                return verdict
        return self._evaluated(context)

    def _evaluated_by_name(self, context: CommandContext) -> Verdict:
        """Evaluate a command that refers to the last declared queue, or declares one."""
        before = context.command
        written_out = self._last_queues.written_out(before)
        verdict = self._evaluated(
            context if written_out is before else msgspec.structs.replace(context, command=written_out)
        )
        if verdict.command is None:
            return verdict
        if isinstance(before.method, QueueDeclare):
            self._last_queues.note(before.channel, before.method)
            return verdict
        left = self._last_queues.left_out(verdict.command, written_out, before)
        return verdict if left is verdict.command else msgspec.structs.replace(verdict, command=left)

    def _evaluated(self, context: CommandContext) -> Verdict:
        command = context.command
        known = self._cached_decision(context)
        known.count()
        verdict = known.verdict_on(command)
        if known.is_final:
            return verdict
        row = self._index.row_of(context)
        assert row is not None  # a decision without a row is final
        _ = command.header  # decode here, so that a malformed header is the sender's fault, not the rule's
        if known.is_restored_first:
            verdict = self._calls.restore(row, context, verdict)
        verdict = self._calls.decide(known, context, verdict)
        if known.is_restored_last and verdict.close is None:
            verdict = self._calls.restore(row, context, verdict)
        return verdict

    def _cached_decision(self, context: CommandContext) -> CachedDecision:
        """Return the decision about a command: of the last staged frame, from the cache, or newly made."""
        frames = context.command.frames
        if not frames:
            return self._analysis.decision(context)
        first, known = self._last
        if frames[0] is first and known is not None:
            self._last = (None, None)
            return known
        known = self._cached[context.sender].get(cache_key(frames[0]))
        return known or self._cache(context.sender, frames[0], context.channel)

    def _cache(self, sender: Peer, frame: Frame, channel: ChannelInfo) -> CachedDecision:
        """Decide about all commands with the method of `frame`, and cache the decision."""
        context = CommandContext(sender=sender, command=Command.received([frame]), client=self.client, channel=channel)
        known = self._analysis.decision(context)
        key = cache_key(frame)
        if len(key) <= MAX_KEY_SIZE:
            memory = self._cached[sender]
            if len(memory) >= MAX_CACHED:
                memory.clear()
            memory[key] = known
        return known

    # --- what may be shown

    def covered(self, sender: Peer, command: Command, body_limit: int = MAX_BODY) -> Command | None:
        """Return a received command as taps may see it, `None` if not at all; a body above `body_limit` bytes is
        masked.
        """
        return self._redactions.for_taps(sender, command, body_limit)

    @property
    def shown_client(self) -> Client:
        """Client facts after redaction."""
        return self._redactions.shown_client

    # --- the session itself

    def start(
        self, *, now: float, time: float, random: Callable[[], float], is_open: bool = False
    ) -> tuple[Impairment, ...]:
        """Return the impairments of the byte stream; call it before the first byte, and again at connection.open-ok."""
        impairments: list[Impairment] = []
        context = CommandContext(sender=CLIENT, command=_NOTHING, client=self.client, now=now, time=time, random=random)
        for case in self._index.cases:
            impairing = case.at_start
            if impairing is None or case in self._states.started or (case.is_late and not is_open):
                continue
            self._states.started.add(case)
            try:
                holds = case.method_conditions_hold(context) and case.other_conditions_hold(context)
                found = impairing.start(self.client, self._states.of(case), now, random) if holds else ()
            except Exception as error:  # noqa: BLE001 - no command can be refused at this point
                case.counts.fail(account(case.rule, error))
                continue
            if found:
                case.counts.of(Outcome.SHADOW if case.is_shadow else Outcome.IMPAIRED).number += 1
            if not case.is_shadow:
                impairments += found
        return tuple(impairments)

    def note_answer(self, answer: Command) -> None:
        """Apply an answer of the broker that is not a method, such as the completion of a command, to limits."""
        row = self._index.row(SERVER, answer.index)
        if row is not None:
            context = CommandContext(sender=SERVER, command=answer, client=self.client)
            self._calls.restore(row, context, Verdict(command=answer))

    def channel_closed(self, number: int) -> None:
        """Forget a channel that was closed on the client's leg."""
        self._last_queues.forget(number)
        self._states.channel_closed(number)

    def session_over(self) -> None:
        """End the session; call it once."""
        self._states.session_over()

    def moved(self, ruleset: RuleSet) -> RuleEvaluator:
        """Return the evaluator of the session for a reloaded rule set, replacing this one.

        A rule that continues an old one keeps its session state, unless an intermediate reload, which this session
        missed, had a rule that did not: then another state is shared by all sessions. Names changed by removed rules
        are still restored.
        """
        states, retired = self._states.handed_over((*self._retired, *self.ruleset.cases), ruleset.cases)
        return RuleEvaluator(
            ruleset, self.client, states=states, last_queues=self._last_queues, retired=retired, era=self.era
        )


_NOTHING = Command(0, ConnectionOpenOk())
"""Placeholder command for conditions that read only the client."""
