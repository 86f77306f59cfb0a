"""Calls rules about a command, and joins their verdicts."""

from __future__ import annotations

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import PreconditionFailed, Scope, reply_text
from amqproxy.amqp091.pass_cache import Credit
from amqproxy.rules.context import BodyTooLarge, CommandContext
from amqproxy.rules.engine.compiled_rule import CompiledRule, account
from amqproxy.rules.engine.decision_cache import CachedDecision, has_effect
from amqproxy.rules.engine.outcome import Outcome, outcome
from amqproxy.rules.engine.redactions import Redactions
from amqproxy.rules.engine.rule_index import MethodRules
from amqproxy.rules.engine.rule_states import RuleStates
from amqproxy.rules.sendable import check_verdict
from amqproxy.rules.verdict import Close, Verdict

INTERNAL_ERROR = 541


class RuleCalls:
    """Calls the rules of one session with their states; a rule that raises refuses the command."""

    __slots__ = ("_redactions", "_states")

    def __init__(self, states: RuleStates, redactions: Redactions) -> None:
        self._states = states
        self._redactions = redactions

    def decide(self, known: CachedDecision, context: CommandContext, verdict: Verdict) -> Verdict:
        """Join `verdict` with the verdicts of the rules that must decide each time."""
        place = -1
        for case in known.asked:
            if verdict.is_final or verdict.command is None or verdict.close is not None:
                break
            if case.place <= place:
                continue
            context = after(context, verdict)
            try:
                if not (known.is_certain or case.method_conditions_hold(context)) or not case.other_conditions_hold(
                    context
                ):
                    continue
                decided = self.decision(case, context)
            except Exception as error:  # noqa: BLE001 - a rule may raise anything, and must then refuse
                verdict = verdict.then(_failed(case, context, error))
                continue
            if decided is None:
                continue
            case.counts.of(outcome_of(case, decided, context)).number += 1
            verdict = verdict.then(decided)
            place = case.last_place
        return verdict

    def decision(self, case: CompiledRule, context: CommandContext) -> Verdict | None:
        """Return the verdict of a rule whose conditions hold; `None` if it has no effect. Exceptions are not caught."""
        given = self._redactions.for_rules(context) if case.rule.sees_redacted else context
        decided = case.rule.decide(given, self._states.of(case))
        does_act = has_effect(decided, context.command)
        if not does_act and not decided.is_final:
            return None
        if case.is_shadow:
            marks = (f"{case.rule.name} (shadow)",) if does_act else ()
            return Verdict(command=context.command, marks=marks)
        if case.is_cacheable or case.rule.makes_unchecked_values:
            check_verdict(decided, context.command)
        if case.last_place >= 0 and decided.command is not None:
            return msgspec.structs.replace(decided, is_final=False)  # it ends the access list, not the rules
        if does_act:
            return msgspec.structs.replace(decided, marks=(*decided.marks, case.rule.name))
        return decided

    def restore(self, row: MethodRules, context: CommandContext, verdict: Verdict) -> Verdict:
        """Return `verdict` with the names restored that rules changed in the other direction."""
        for case, reversible in row.restoring:
            if verdict.command is None:
                break
            context = after(context, verdict)
            try:
                restored = reversible.restore(context, self._states.of(case))
                if case.rule.makes_unchecked_values:
                    check_verdict(restored, context.command)
            except Exception as error:  # noqa: BLE001 - as above
                verdict = verdict.then(_failed(case, context, error))
                continue
            if not case.is_shadow:
                verdict = verdict.then(restored)
        return verdict

    def restore_alike(self, row: MethodRules, context: CommandContext, verdict: Verdict) -> Verdict | None:
        """Like `restore`, for all equal methods; `None` if the result may differ."""
        if not row.is_restored_alike:
            return None
        try:
            for case, reversible in row.restoring:
                context = after(context, verdict)
                restored = reversible.restore(context, self._states.of(case))
                check_verdict(restored, context.command)
                if restored.command is None or not is_repeatable(restored, context.command):
                    return None
                verdict = verdict.then(restored)
        except Exception:  # noqa: BLE001 - it is then called, and refuses, each time
            return None
        return verdict

    def allowance(self, case: CompiledRule, context: CommandContext) -> Credit | None:
        """Return the number of commands that pass without a decision of a rule; `None` if each needs one."""
        return case.allowance(context, self._states.of(case))


def after(context: CommandContext, verdict: Verdict) -> CommandContext:
    """Return the context of the next rule."""
    if verdict.command is context.command and verdict.shown is context.shown and verdict.tags == context.tags:
        return context
    return msgspec.structs.replace(context, command=verdict.command, shown=verdict.shown, tags=verdict.tags)


def is_repeatable(verdict: Verdict, command: Command) -> bool:
    """Whether the verdict holds for any command with the same method, whatever its content."""
    if verdict.insertions or verdict.mirrored or verdict.shown is not None:
        return False
    return verdict.command is None or verdict.command is command or verdict.command.header is None


def outcome_of(case: CompiledRule, decided: Verdict, context: CommandContext) -> str:
    """Return the outcome to count for a rule's own verdict."""
    return Outcome.SHADOW if case.is_shadow else outcome(decided, context.command)


def _failed(case: CompiledRule, context: CommandContext, error: Exception) -> Verdict:
    """Refuse the command if a rule raised, unless the rule fails open or is in shadow mode.

    The exception is not shown in full, since it may contain secrets.
    """
    rule = case.rule
    how = account(rule, error)
    case.counts.fail(how)
    failures = ((rule.name, how),)
    if case.is_shadow or rule.fails_open:
        return Verdict(command=context.command, shown=context.shown, failures=failures)
    scope = Scope.CHANNEL if context.command.channel else Scope.CONNECTION
    close = Close(scope, INTERNAL_ERROR, reply_text(INTERNAL_ERROR, f"rule '{rule.name}' failed"))
    if isinstance(error, BodyTooLarge):
        close = Close(scope, PreconditionFailed.code, PreconditionFailed(str(error)).reply_text)
    return Verdict(command=None, close=close, marks=(rule.name,), failures=failures, is_final=True)
