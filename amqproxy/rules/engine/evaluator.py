"""Evaluates rules on the commands of a session.

Rules decide in the order of the config, each on the command as those before have left it, until a verdict is final.
They use the names that the client uses: those are restored in the server's commands before rules decide, and replaced
in the client's commands after that.
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
"""Indexes that are cached: one for each set of rules that can match a client."""

MAX_CACHED = 512
"""Methods of either peer whose decisions a session caches."""


class RuleSet:
    """The rules of one config, with what sessions share of them. It never changes; a reload makes another."""

    def __init__(self, rules: Iterable[Rule], previous: RuleSet | None = None) -> None:
        self.rules = tuple(rules)
        before = {case.rule.name: case for case in previous.cases} if previous else {}
        counts = previous.counts() if previous else {}
        self._counts = {rule.name: counts.get(rule.name) or OutcomeCounts() for rule in self.rules}
        cases: list[CompiledRule] = []
        for rule in self.rules:
            cases += _cases(rule, len(cases), before, self._counts[rule.name])
        self.cases: tuple[CompiledRule, ...] = tuple(cases)
        self._indexes: dict[tuple[CompiledRule, ...], RuleIndex] = {}

    def evaluator(self, client: Client) -> RuleEvaluator:
        """The evaluator of one session."""
        return RuleEvaluator(self, client)

    def replaced(self, rules: Iterable[Rule]) -> RuleSet:
        """The rules of a new config; those that continue an old one go on with what it remembers and has counted."""
        return RuleSet(rules, self)

    def continued_from(self, previous: RuleSet) -> set[str]:
        """The names of the rules that take over what those of `previous` remember."""
        before = {rule.name: rule for rule in previous.rules}
        return {
            rule.name
            for rule in self.rules
            if isinstance(rule, Stateful) and rule.name in before and rule.continues(before[rule.name])
        }

    def counts(self) -> dict[str, OutcomeCounts]:
        """By the name of the rule; they go on counting."""
        return self._counts

    def index(self, cases: tuple[CompiledRule, ...], retired: tuple[CompiledRule, ...]) -> RuleIndex:
        """The index for a client for which these rules can hold; clients with the same rules share one."""
        if retired:
            return RuleIndex(cases, retired)
        index = self._indexes.get(cases)
        if index is None:
            if len(self._indexes) >= MAX_INDEXES:
                self._indexes.clear()
            index = self._indexes[cases] = RuleIndex(cases)
        return index


def _cases(rule: Rule, place: int, before: Mapping[str, CompiledRule], counts: OutcomeCounts) -> Iterator[CompiledRule]:
    """The rule, or its parts, from `place` on."""
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
    """Evaluates the commands of one session."""

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
        """Without the others, of a new session; `retired` are rules of before a reload that still restore names."""
        self.ruleset = ruleset
        self.era = era
        """Goes up when cached decisions are no longer valid."""
        self._states = states or RuleStates()
        self._last_queues = last_queues or LastQueues()
        self._retired = retired
        self.know(client)

    def know(self, client: Client) -> None:
        """Take what is known of the client now. To be called as soon as the client has sent its user, its properties or
        its vhost, before the command that contains them is evaluated."""
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
        """A 1 at the index of each method of `sender` that is to be staged, as `FrameReader.want` takes it."""
        return self._index.wants[sender]

    def wants_all(self, sender: Peer) -> bool:
        """Are heartbeats to be staged too?"""
        return self._index.heartbeats[sender] is not None

    @property
    def may_act(self) -> bool:
        """Is there a rule that can hold for the client, as far as that is known, or one that still restores names?"""
        return bool(self._index.cases or self._retired)

    @property
    def reads_unacked(self) -> bool:
        """Is `ChannelInfo.unacked` to be counted?"""
        return any(case.reads_unacked for case in self._index.cases)

    @property
    def drops_confirms(self) -> bool:
        """May confirms of the broker's be kept from the client?"""
        return any(case.drops_confirms for case in self._index.cases)

    def stage(self, sender: Peer, frame: Frame, channel: ChannelInfo) -> Stage:
        """How much of the command that `frame` begins must have come before it can be evaluated; NOTHING: it passes.

        `ProtocolError` when the method is malformed.
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
        """What becomes of commands of this `cache_key` without evaluating them, in this `era`; None: they must be.

        A caller that lets one of them go on without staging it calls `CachedPasses.count`. One that is evaluated takes
        of the allowances, too.
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
        return CachedPasses(passing, tuple(terms.allowances), terms.if_plain)

    def evaluate(self, context: CommandContext) -> Verdict:
        """What is to become of a command, of which as much has come as `stage` asked for.

        A rule that raises refuses it. `ProtocolError` when it is malformed, which is its sender's fault.
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
        """The verdict on a command that means the last queue, or makes one the last."""
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
        assert row is not None  # or there would be nothing to ask
        _ = command.header  # what is malformed is to be found here, and is no fault of a rule's
        if known.is_restored_first:
            verdict = self._calls.restore(row, context, verdict)
        verdict = self._calls.decide(known, context, verdict)
        if known.is_restored_last and verdict.close is None:
            verdict = self._calls.restore(row, context, verdict)
        return verdict

    def _cached_decision(self, context: CommandContext) -> CachedDecision:
        """What is known of a command, whether it was the last to be staged, or was long ago, or never."""
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
        """What is known, from now on, of all commands whose method is like this one."""
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
        """A received command as taps may see it; None: not at all. A body of more than `body_limit` bytes is masked."""
        return self._redactions.for_taps(sender, command, body_limit)

    @property
    def shown_client(self) -> Client:
        """What is known of the client, as redactions leave it."""
        return self._redactions.shown_client

    # --- the session itself

    def start(
        self, *, now: float, time: float, random: Callable[[], float], is_open: bool = False
    ) -> tuple[Impairment, ...]:
        """What is done to the bytes from here on. To be asked before the first byte, and with connection.open-ok."""
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
            except Exception as error:  # noqa: BLE001 - there is no command yet to refuse
                case.counts.fail(account(case.rule, error))
                continue
            if found:
                case.counts.of(Outcome.SHADOW if case.is_shadow else Outcome.IMPAIRED).number += 1
            if not case.is_shadow:
                impairments += found
        return tuple(impairments)

    def note_answer(self, answer: Command) -> None:
        """Let limits count an answer of the broker's that is not a frame: the completion of an AMQP 0-10 command."""
        row = self._index.row(SERVER, answer.index)
        if row is not None:
            context = CommandContext(sender=SERVER, command=answer, client=self.client)
            self._calls.restore(row, context, Verdict(command=answer))

    def channel_closed(self, number: int) -> None:
        """The channel no longer exists on the client's leg."""
        self._last_queues.forget(number)
        self._states.channel_closed(number)

    def session_over(self) -> None:
        """The session has ended; to be called once."""
        self._states.session_over()

    def moved(self, ruleset: RuleSet) -> RuleEvaluator:
        """The evaluator of the same session by the rules of a new config, which replaces this one.

        A rule that continues an old one keeps what it remembers of the session, unless a reload that this session
        missed had a rule in between that did not: then another memory is shared by all sessions. Names that a rule has
        changed which no longer exists are still restored.
        """
        states, retired = self._states.handed_over((*self._retired, *self.ruleset.cases), ruleset.cases)
        return RuleEvaluator(
            ruleset, self.client, states=states, last_queues=self._last_queues, retired=retired, era=self.era
        )


_NOTHING = Command(0, ConnectionOpenOk())
"""What stands for a command where only the client matters."""
