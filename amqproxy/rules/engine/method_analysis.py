"""Decisions that depend on a method alone, and hold for all equal methods of the client."""

from __future__ import annotations

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import QueueDeclareOk
from amqproxy.amqp091.pass_cache import Credit
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.rules.context import CommandContext
from amqproxy.rules.engine.compiled_rule import CompiledRule
from amqproxy.rules.engine.decision_cache import CachedDecision
from amqproxy.rules.engine.last_queue import LastQueues
from amqproxy.rules.engine.outcome import OutcomeCounter
from amqproxy.rules.engine.rule_calls import RuleCalls, after, is_repeatable, outcome_of
from amqproxy.rules.engine.rule_index import MethodRules, RuleIndex, is_heartbeat
from amqproxy.rules.verdict import Stage, Verdict


class PassTerms:
    """Terms on which commands pass unevaluated: while all `allowances` last, with `if_plain` as long as their headers
    name no further queues or exchanges, and with `largest` of at least 0 as long as no body has more bytes.
    """

    __slots__ = ("allowances", "if_plain", "largest")

    def __init__(self) -> None:
        self.allowances: list[Credit] = []
        self.if_plain = False
        self.largest = -1

    def limit_body(self, size: int) -> None:
        """Exclude larger bodies from passing."""
        self.largest = size if self.largest < 0 else min(self.largest, size)


class MethodAnalysis:
    """Derivation of the decisions that a method alone determines, for the decision cache of one session."""

    __slots__ = ("_calls", "_index", "_last_queues")

    def __init__(self, index: RuleIndex, last_queues: LastQueues, calls: RuleCalls) -> None:
        self._index = index
        self._last_queues = last_queues
        self._calls = calls

    def decision(self, context: CommandContext, terms: PassTerms | None = None) -> CachedDecision:
        """Evaluate rules in order, as long as each has a constant answer to the method.

        With `terms`, rules whose answer is constant on certain terms count too, and their terms are added.
        """
        command = context.command
        row = self._index.row_of(context)
        if row is None:
            return CachedDecision(command, Verdict(command=command), Stage.NOTHING)
        if is_heartbeat(command):
            return _open(
                row, context, CachedDecision(command, Verdict(command=command), Stage.METHOD), -1, is_certain=False
            )
        _ = command.method  # decode here, as `evaluate` does
        verdict = Verdict(command=command)
        if self._index.tracks_last_queues and self._is_about_last_queue(context):
            known = _open(row, context, CachedDecision(command, verdict, Stage.METHOD), -1, is_certain=False)
            known.is_restored_first = context.sender is SERVER and bool(row.restoring)
            known.is_restored_last = context.sender is CLIENT and bool(row.restoring)
            known.stage = max(known.stage, row.restoring_stage)
            return known
        if context.sender is SERVER and row.restoring:
            restored = self._calls.restore_alike(row, context, verdict)
            if restored is None:
                known = _open(row, context, CachedDecision(command, verdict, Stage.METHOD), -1, is_certain=False)
                known.is_restored_first = True
                known.stage = max(known.stage, row.restoring_stage)
                return known
            verdict = restored
        known, context, verdict = self._settled(row, context, verdict, command, terms)
        if context.sender is CLIENT and row.restoring and verdict.command is not None and verdict.close is None:
            restored = self._calls.restore_alike(row, context, verdict) if known.is_final else None
            if restored is not None:
                known.settle(restored, command)
            else:
                known.is_restored_last = True
                known.is_final = known.is_passing = False
                known.stage = max(known.stage, row.restoring_stage)
        return known

    def _is_about_last_queue(self, context: CommandContext) -> bool:
        if context.sender is SERVER:
            return context.command.index == QueueDeclareOk.index
        return self._last_queues.concerns(context.command)

    def _settled(
        self, row: MethodRules, context: CommandContext, verdict: Verdict, command: Command, terms: PassTerms | None
    ) -> tuple[CachedDecision, CommandContext, Verdict]:
        """Apply the rules that decide once; return the decision so far, the context of the next rule, and the joined
        verdict.

        `verdict` is the one so far.
        """
        counts: list[OutcomeCounter] = []
        context = after(context, verdict)
        place = -1
        cases = row.candidates(context.command.method)
        at = 0
        opened: CachedDecision | None = None
        while at < len(cases):
            case = cases[at]
            at += 1
            if case.place <= place:
                continue
            try:
                does_hold, is_cacheable, may_have_allowance = (
                    case.method_conditions_hold(context),
                    case.is_cacheable,
                    False,
                )
                if does_hold and terms is not None:
                    is_cacheable, may_have_allowance = case.is_cacheable_if_plain, case.may_have_allowance_if_plain
                    allowed_body = case.allowed_body_if_plain
                    if case.other_conditions and (is_cacheable or may_have_allowance or allowed_body is not None):
                        terms.if_plain = True
                        does_hold = case.other_conditions_hold(context)
                    if does_hold and allowed_body is not None:
                        terms.limit_body(allowed_body)
                        does_hold = False  # of the bodies that pass unevaluated
                decided = self._calls.decision(case, context) if does_hold and is_cacheable else None
                allowance = self._calls.allowance(case, context) if does_hold and may_have_allowance else None
            except Exception:  # noqa: BLE001 - it is then called, and refuses, each time
                opened = _open(row, context, CachedDecision(command, verdict, Stage.METHOD), place)
                break
            if allowance is not None and terms is not None:
                terms.allowances.append(allowance)
            elif (does_hold and not is_cacheable) or not (decided is None or is_repeatable(decided, context.command)):
                opened = _open(row, context, CachedDecision(command, verdict, Stage.METHOD), place)
                break
            place = case.place
            if decided is None:
                continue
            counts.append(case.counts.of(outcome_of(case, decided, context)))
            verdict = verdict.then(decided)
            place = max(place, case.last_place)
            if verdict.is_final or verdict.command is None or verdict.close is not None:
                break
            if verdict.command is not context.command:
                context = after(context, verdict)
                cases, at = row.candidates(context.command.method), 0
        known = opened or CachedDecision(command, verdict, Stage.METHOD)
        known.counts = tuple(counts)
        return known, context, verdict


def _open(
    row: MethodRules, context: CommandContext, known: CachedDecision, place: int, *, is_certain: bool = True
) -> CachedDecision:
    """Add to `known` the rules after `place` that must be called each time, and the stage that they may need.

    `context` is that of the first of them; unless `is_certain`, its method may have changed by then.
    """
    asked: list[CompiledRule] = []
    cases = row.candidates(context.command.method) if is_certain else row.asked
    at = 0
    while at < len(cases):
        case = cases[at]
        at += 1
        if case.place <= place:
            continue
        place = case.place
        was_certain = is_certain
        if is_certain:
            try:
                if not case.method_conditions_hold(context):
                    continue
            except Exception:  # noqa: BLE001 - it is called again, and then refuses
                is_certain = False
        asked.append(case)
        known.stage = max(known.stage, case.stage)
        if case.rule.changes_method and not case.is_shadow:
            is_certain = False
        if was_certain and not is_certain:
            cases, at = row.asked, 0
    known.asked = tuple(asked)
    known.is_certain = is_certain
    known.is_final = known.is_passing = False
    return known
