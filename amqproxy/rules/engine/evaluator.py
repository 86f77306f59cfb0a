"""What the rules make of a command: who is asked, in which order, and what it comes to.

Rules are asked in the order of the config, each about the command as those before have left it; the first whose word is
final ends it. They use the names that the client uses: those are restored in the server's commands before rules
decide, and replaced in the client's commands after that.

A long file, because to examine a method once, to ask the rules that are left, and to take over what a session remembers
all read and write the same few attributes; each would reach into the others' state from a file of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from amqproxy.amqp091.commands import MAX_BODY, Command
from amqproxy.amqp091.errors import PreconditionFailed, Scope, reply_text
from amqproxy.amqp091.frame import HEARTBEAT, Frame
from amqproxy.amqp091.methods import (
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStartOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.pass_cache import Credit
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.amqp091.wire import Table as FieldTable
from amqproxy.rules.access.acl import parts_of
from amqproxy.rules.client_info import updated_client
from amqproxy.rules.context import BodyTooLarge, ChannelInfo, Client, CommandContext
from amqproxy.rules.engine.compiled_rule import CompiledRule, account
from amqproxy.rules.engine.decision_cache import MAX_OCTETS, CachedDecision, CachedPasses, cache_key, has_effect
from amqproxy.rules.engine.last_queue import LastQueues
from amqproxy.rules.engine.outcome import Outcome, OutcomeCounter, OutcomeCounts, outcome
from amqproxy.rules.engine.rule_index import MethodRules, RuleIndex
from amqproxy.rules.matching.attributes import method_name
from amqproxy.rules.matching.filters import compiled
from amqproxy.rules.rewriting.redact import Redact
from amqproxy.rules.rule import Rule, RuleState, SessionMemory, Stateful
from amqproxy.rules.sendable import check_verdict
from amqproxy.rules.verdict import Close, Impairment, Stage, Verdict

INTERNAL_ERROR = 541

MAX_TABLES = 256
"""How many kinds of client, by the rules that can match them, are cached."""

MAX_KNOWN = 512
"""How many methods of either peer are remembered for a session, to the byte."""


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
        self._tables: dict[tuple[CompiledRule, ...], RuleIndex] = {}

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

    def table(self, cases: tuple[CompiledRule, ...], retired: tuple[CompiledRule, ...]) -> RuleIndex:
        """The table for a client for which these rules can hold; clients with the same rules share one."""
        if retired:
            return RuleIndex(cases, retired)
        table = self._tables.get(cases)
        if table is None:
            if len(self._tables) >= MAX_TABLES:
                self._tables.clear()
            table = self._tables[cases] = RuleIndex(cases)
        return table


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
    """Judges the commands of one session."""

    def __init__(self, ruleset: RuleSet, client: Client) -> None:
        self.ruleset = ruleset
        self.era = 0
        """Goes up when cached decisions are no longer valid."""
        self._memories: dict[CompiledRule, RuleState] = {}
        self._started: set[CompiledRule] = set()
        self._retired: tuple[CompiledRule, ...] = ()
        self._last_queues = LastQueues()
        self.know(client)

    def know(self, client: Client) -> None:
        """Take what is known of the client now. To be called as soon as the client has sent its user, its properties or
        its vhost, before the command that contains them is evaluated."""
        self.client = client
        self._shown_client: Client | None = None
        probe = CommandContext(sender=CLIENT, command=_NOTHING, client=client)
        asked = [case.asked_of(probe) for case in self.ruleset.cases]
        cases = tuple([case for case in asked if case is not None])
        self._table = self.ruleset.table(cases, self._retired)
        self._cases = self._table.cases
        self._known: dict[Peer, dict[bytes, CachedDecision]] = {CLIENT: {}, SERVER: {}}
        self._last: tuple[Frame | None, CachedDecision | None] = (None, None)
        self.era += 1

    def wants(self, sender: Peer) -> bytes:
        """A 1 at the index of each method of `sender` that is to be staged, as `FrameReader.want` takes it."""
        return self._table.wants[sender]

    def wants_all(self, sender: Peer) -> bool:
        """Are heartbeats to be staged too?"""
        return self._table.heartbeats[sender] is not None

    @property
    def reads_unacked(self) -> bool:
        """Is `ChannelInfo.unacked` to be counted?"""
        return any(case.reads_unacked for case in self._cases)

    @property
    def drops_confirms(self) -> bool:
        """May confirms of the broker's be kept from the client?"""
        return any(case.drops_confirms for case in self._cases)

    def stage(self, sender: Peer, frame: Frame, channel: ChannelInfo) -> Stage:
        """How much of the command that `frame` begins must have come before it can be evaluated; NOTHING: it passes.

        `ProtocolError` when the method is malformed.
        """
        known = self._known[sender].get(cache_key(frame))
        if known is None:
            known = self._learned(sender, frame, channel)
        if known.is_passing:
            known.count()
            return Stage.NOTHING
        self._last = (frame, known)
        return known.stage

    def passing(self, sender: Peer, frame: Frame, channel: ChannelInfo, now: float) -> CachedPasses | None:
        """What becomes of commands of this `cache_key` without evaluating them, in this `era`; None: they must be.

        Whoever lets one of them go on without staging it calls `CachedPasses.count`. One that is evaluated takes of the
        allowances, too.
        """
        known = self._known[sender].get(cache_key(frame))
        if known is None:
            known = self._learned(sender, frame, channel)
        if known.is_final:
            return CachedPasses(known, ()) if known.goes_on_alike else None
        if not known.may_be_spared:
            return None
        terms = _Terms()
        context = CommandContext(
            sender=sender, command=Command.received([frame]), client=self.client, channel=channel, now=now
        )
        passing = self._examined(context, terms)
        if not (passing.is_final and passing.goes_on_alike):
            known.may_be_spared = False
            return None
        return CachedPasses(passing, tuple(terms.allowances), terms.if_plain)

    def evaluate(self, context: CommandContext) -> Verdict:
        """What is to become of a command, of which as much has come as `stage` asked for.

        A rule that raises refuses it. `ProtocolError` when it is malformed, which is its sender's fault.
        """
        if self._table.knows_queues:
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
        known = self._known_of(context)
        known.count()
        verdict = known.verdict_on(command)
        if known.is_final:
            return verdict
        row = self._row(context)
        assert row is not None  # or there would be nothing to ask
        _ = command.header  # what is malformed is to be found here, and is no fault of a rule's
        if known.is_restored_first:
            verdict = self._restored(row, context, verdict)
        verdict = self._asked(known, context, verdict)
        if known.is_restored_last and verdict.close is None:
            verdict = self._restored(row, context, verdict)
        return verdict

    def _known_of(self, context: CommandContext) -> CachedDecision:
        """What is known of a command, whether it was the last to be staged, or was long ago, or never."""
        frames = context.command.frames
        if not frames:
            return self._examined(context)
        first, known = self._last
        if frames[0] is first and known is not None:
            self._last = (None, None)
            return known
        known = self._known[context.sender].get(cache_key(frames[0]))
        return known or self._learned(context.sender, frames[0], context.channel)

    def _row(self, context: CommandContext) -> MethodRules | None:
        return self._table.row(context.sender, -1 if _is_heartbeat(context.command) else context.command.index)

    # --- what need only be found out once

    def _learned(self, sender: Peer, frame: Frame, channel: ChannelInfo) -> CachedDecision:
        """What is known, from now on, of all commands whose method is like this one."""
        context = CommandContext(sender=sender, command=Command.received([frame]), client=self.client, channel=channel)
        known = self._examined(context)
        key = cache_key(frame)
        if len(key) <= MAX_OCTETS:
            memory = self._known[sender]
            if len(memory) >= MAX_KNOWN:
                memory.clear()
            memory[key] = known
        return known

    def _examined(self, context: CommandContext, terms: _Terms | None = None) -> CachedDecision:
        """Ask the rules in order, as long as each has but one answer to such a method, whenever it is asked.

        With `terms`, those count too that have but one answer on certain terms, which are entered there.
        """
        command = context.command
        row = self._row(context)
        if row is None:
            return CachedDecision(command, Verdict(command=command), Stage.NOTHING)
        if _is_heartbeat(command):
            return _open(
                row, context, CachedDecision(command, Verdict(command=command), Stage.METHOD), -1, is_certain=False
            )
        _ = command.method  # as in `evaluate`
        verdict = Verdict(command=command)
        if self._table.knows_queues and self._is_about_last_queue(context):
            known = _open(row, context, CachedDecision(command, verdict, Stage.METHOD), -1, is_certain=False)
            known.is_restored_first = context.sender is SERVER and bool(row.restoring)
            known.is_restored_last = context.sender is CLIENT and bool(row.restoring)
            known.stage = max(known.stage, row.restoring_stage)
            return known
        if context.sender is SERVER and row.restoring:
            restored = self._restored_for_good(row, context, verdict)
            if restored is None:
                known = _open(row, context, CachedDecision(command, verdict, Stage.METHOD), -1, is_certain=False)
                known.is_restored_first = True
                known.stage = max(known.stage, row.restoring_stage)
                return known
            verdict = restored
        known, context, verdict = self._settled(row, context, verdict, command, terms)
        if context.sender is CLIENT and row.restoring and verdict.command is not None and verdict.close is None:
            restored = self._restored_for_good(row, context, verdict) if known.is_final else None
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
        self, row: MethodRules, context: CommandContext, verdict: Verdict, command: Command, terms: _Terms | None
    ) -> tuple[CachedDecision, CommandContext, Verdict]:
        """What is known after those rules that need be asked but once, what the next one sees, and their verdict.

        `verdict` is the one so far.
        """
        counts: list[OutcomeCounter] = []
        context = _after(context, verdict)
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
                does_hold, is_settled, may_spare = case.holds_of_method(context), case.is_settled, False
                if does_hold and terms is not None:
                    is_settled, may_spare = case.is_settled_if_plain, case.may_spare_if_plain
                    if case.about_the_rest and (is_settled or may_spare):
                        terms.if_plain = True
                        does_hold = case.holds_of_the_rest(context)
                decided = self._decided(case, context) if does_hold and is_settled else None
                allowance = case.allowance(context, self._memory(case)) if does_hold and may_spare else None
            except Exception:  # noqa: BLE001 - then it is asked, and refuses, each time
                opened = _open(row, context, CachedDecision(command, verdict, Stage.METHOD), place)
                break
            if allowance is not None and terms is not None:
                terms.allowances.append(allowance)
            elif (does_hold and not is_settled) or not (decided is None or _is_repeatable(decided, context.command)):
                opened = _open(row, context, CachedDecision(command, verdict, Stage.METHOD), place)
                break
            place = case.place
            if decided is None:
                continue
            counts.append(case.counts.of(_outcome(case, decided, context)))
            verdict = verdict.then(decided)
            place = max(place, case.last_place)
            if verdict.is_final or verdict.command is None or verdict.close is not None:
                break
            if verdict.command is not context.command:
                context = _after(context, verdict)
                cases, at = row.candidates(context.command.method), 0
        known = opened or CachedDecision(command, verdict, Stage.METHOD)
        known.counts = tuple(counts)
        return known, context, verdict

    def _restored_for_good(self, row: MethodRules, context: CommandContext, verdict: Verdict) -> Verdict | None:
        """The verdict with names given back, if that comes to the same each time; else None."""
        if not row.restores_for_good:
            return None
        try:
            for case, reversible in row.restoring:
                context = _after(context, verdict)
                restored = reversible.restore(context, self._memory(case))
                check_verdict(restored, context.command)
                if restored.command is None or not _is_repeatable(restored, context.command):
                    return None
                verdict = verdict.then(restored)
        except Exception:  # noqa: BLE001 - then it is asked, and refuses, each time
            return None
        return verdict

    # --- what must be asked each time

    def _asked(self, known: CachedDecision, context: CommandContext, verdict: Verdict) -> Verdict:
        """The verdict, with what the rules add to it that are left to be asked."""
        place = -1
        for case in known.asked:
            if verdict.is_final or verdict.command is None or verdict.close is not None:
                break
            if case.place <= place:
                continue
            context = _after(context, verdict)
            try:
                if not (known.is_certain or case.holds_of_method(context)) or not case.holds_of_the_rest(context):
                    continue
                decided = self._decided(case, context)
            except Exception as error:  # noqa: BLE001 - a rule may raise anything, and must then refuse
                verdict = verdict.then(_failed(case, context, error))
                continue
            if decided is None:
                continue
            case.counts.of(_outcome(case, decided, context)).number += 1
            verdict = verdict.then(decided)
            place = case.last_place
        return verdict

    def _decided(self, case: CompiledRule, context: CommandContext) -> Verdict | None:
        """What a rule that holds makes of a command; None where it lets it be. What it raises, it raises."""
        given = self._covered(context) if case.rule.sees_redacted else context
        decided = case.rule.decide(given, self._memory(case))
        does_act = has_effect(decided, context.command)
        if not does_act and not decided.is_final:
            return None
        if case.is_shadow:
            marks = (f"{case.rule.name} (shadow)",) if does_act else ()
            return Verdict(command=context.command, marks=marks)
        if case.is_settled or case.rule.makes_unchecked_values:
            check_verdict(decided, context.command)
        if case.last_place >= 0 and decided.command is not None:
            return msgspec.structs.replace(decided, is_final=False)  # it ends the list, and not the rules
        if does_act:
            return msgspec.structs.replace(decided, marks=(*decided.marks, case.rule.name))
        return decided

    # --- what may be shown

    def covered(self, sender: Peer, command: Command, body_limit: int = MAX_BODY) -> Command | None:
        """A command as it came, as taps may see it; None: not at all.

        Every rule that redacts such a method covers it, whether or not its match holds for names: earlier rules may
        change them. A body of more than `body_limit` bytes is masked whole.
        """
        context = CommandContext(sender=sender, command=command, client=self.client, body_limit=body_limit)
        name = method_name(context)
        for case in self._cases:
            if isinstance(case.rule, Redact) and not case.is_shadow and case.may_ask_about(sender, name):
                try:
                    shown = case.rule.decide(context, self._memory(case)).shown
                except Exception as error:  # noqa: BLE001 - what cannot be covered is not shown
                    case.counts.fail(account(case.rule, error))
                    return None
                context = context if shown is None else msgspec.structs.replace(context, shown=shown)
        return command if context.shown is None else context.shown

    @property
    def shown_client(self) -> Client:
        """What is known of the client, as redactions leave it."""
        if self._shown_client is None:
            client = self.client
            try:
                start = self._shown(ConnectionStartOk(client_properties=FieldTable(client.properties)))
                opened = self._shown(ConnectionOpen(client.vhost))
                shown = updated_client(updated_client(client, start), opened)
                properties, vhost = shown.properties, shown.vhost
            except Exception:  # noqa: BLE001 - what cannot be covered is not shown
                properties, vhost = {}, ""
            self._shown_client = msgspec.structs.replace(client, properties=properties, vhost=vhost)
        return self._shown_client

    def _shown(self, method: Method) -> Method:
        covered = self._covered_command(CommandContext(sender=CLIENT, command=Command(0, method), client=self.client))
        found: Method = covered.method
        return found

    def _covered(self, context: CommandContext) -> CommandContext:
        """The same, as redactions leave it, wherever they stand."""
        if not any(isinstance(case.rule, Redact) for case in self._cases):
            return context
        return msgspec.structs.replace(context, shown=self._covered_command(context), client=self.shown_client)

    def _covered_command(self, context: CommandContext) -> Command:
        row = self._row(context)
        for case in () if row is None else row.asked:
            is_about = isinstance(case.rule, Redact) and not case.is_shadow
            if is_about and case.holds_of_method(context) and case.holds_of_the_rest(context):
                verdict = case.rule.decide(context, self._memory(case))
                context = msgspec.structs.replace(context, shown=verdict.shown)
        return context.command if context.shown is None else context.shown

    def _restored(self, row: MethodRules, context: CommandContext, verdict: Verdict) -> Verdict:
        """The verdict, with the names in its command given back that rules have changed in the other direction."""
        for case, reversible in row.restoring:
            if verdict.command is None:
                break
            context = _after(context, verdict)
            try:
                restored = reversible.restore(context, self._memory(case))
                if case.rule.makes_unchecked_values:
                    check_verdict(restored, context.command)
            except Exception as error:  # noqa: BLE001 - as above
                verdict = verdict.then(_failed(case, context, error))
                continue
            if not case.is_shadow:
                verdict = verdict.then(restored)
        return verdict

    def _memory(self, case: CompiledRule) -> RuleState:
        memory = self._memories.get(case)
        if memory is None:
            memory = self._memories[case] = case.begin_session()
        return memory

    # --- the session itself

    def start(
        self, *, now: float, time: float, random: Callable[[], float], is_open: bool = False
    ) -> tuple[Impairment, ...]:
        """What is done to the bytes from here on. To be asked before the first byte, and with connection.open-ok."""
        impairments: list[Impairment] = []
        context = CommandContext(sender=CLIENT, command=_NOTHING, client=self.client, now=now, time=time, random=random)
        for case in self._cases:
            impairing = case.at_start
            if impairing is None or case in self._started or (case.is_late and not is_open):
                continue
            self._started.add(case)
            try:
                holds = case.holds_of_method(context) and case.holds_of_the_rest(context)
                found = impairing.start(self.client, self._memory(case), now, random) if holds else ()
            except Exception as error:  # noqa: BLE001 - there is no command yet to refuse
                case.counts.fail(account(case.rule, error))
                continue
            if found:
                case.counts.of(Outcome.SHADOW if case.is_shadow else Outcome.IMPAIRED).number += 1
            if not case.is_shadow:
                impairments += found
        return tuple(impairments)

    def channel_closed(self, number: int) -> None:
        """The channel no longer exists on the client's leg."""
        self._last_queues.forget(number)
        for case, memory in self._memories.items():
            if isinstance(memory.own, SessionMemory):
                with case.counting_failures():
                    memory.own.channel_closed(number)

    def session_over(self) -> None:
        """The session has ended; to be called once."""
        memories, self._memories = self._memories, {}
        for case, memory in memories.items():
            if isinstance(memory.own, SessionMemory):
                with case.counting_failures():
                    memory.own.session_over()

    def moved(self, ruleset: RuleSet) -> RuleEvaluator:
        """The evaluator of the same session by the rules of a new config, in whose stead this one is no longer used.

        A rule that continues an old one goes on with what it remembers of the session, unless rules in between, which
        this session has not gone by, did not: what is remembered of all sessions is another then. Names that a rule has
        changed which is no more still come back.
        """
        evaluator = RuleEvaluator(ruleset, self.client)
        evaluator.era = self.era + 1
        evaluator._last_queues = self._last_queues
        old = {case.rule.name: case for case in (*self._retired, *self.ruleset.cases)}
        for case in ruleset.cases:
            before = old.get(case.rule.name)
            if before is not None and case.continues(before):
                del old[case.rule.name]
                if before in self._started:
                    evaluator._started.add(case)
                memory = self._memories.pop(before, None)
                if memory is not None:
                    evaluator._memories[case] = memory
        retired = []
        for case in old.values():
            reversible = case.reversible
            if reversible and case in self._memories and any(reversible.restores(peer) for peer in (CLIENT, SERVER)):
                evaluator._memories[case] = self._memories.pop(case)
                retired.append(case)
        self.session_over()
        if retired:
            evaluator._retired = tuple(retired)
            evaluator.know(self.client)
        return evaluator


_NOTHING = Command(0, ConnectionOpenOk())
"""What stands for a command where only the client matters."""


def _is_heartbeat(command: Command) -> bool:
    return bool(command.frames) and command.frames[0].kind == HEARTBEAT


def _open(
    row: MethodRules, context: CommandContext, known: CachedDecision, place: int, *, is_certain: bool = True
) -> CachedDecision:
    """`known`, with the rules behind `place` that must be asked each time, and how much of a command they may need.

    `context` is what the first of them sees; unless `is_certain`, its method may be another by then.
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
                if not case.holds_of_method(context):
                    continue
            except Exception:  # noqa: BLE001 - it is asked again, and then refuses
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


class _Terms:
    """On which commands go on unevaluated: while enough is left of the `allowances`, and, `if_plain`, as long
    as the headers that follow have no further names."""

    __slots__ = ("allowances", "if_plain")

    def __init__(self) -> None:
        self.allowances: list[Credit] = []
        self.if_plain = False


def _after(context: CommandContext, verdict: Verdict) -> CommandContext:
    """What the next rule sees."""
    if verdict.command is context.command and verdict.shown is context.shown and verdict.tags == context.tags:
        return context
    return msgspec.structs.replace(context, command=verdict.command, shown=verdict.shown, tags=verdict.tags)


def _outcome(case: CompiledRule, decided: Verdict, context: CommandContext) -> str:
    """What a rule's own verdict counts as."""
    return Outcome.SHADOW if case.is_shadow else outcome(decided, context.command)


def _is_repeatable(verdict: Verdict, command: Command) -> bool:
    """Could the verdict be given on another command with the same method, when only the method is there?"""
    if verdict.insertions or verdict.mirrored or verdict.shown is not None:
        return False
    return verdict.command is None or verdict.command is command or verdict.command.header is None


def _failed(case: CompiledRule, context: CommandContext, error: Exception) -> Verdict:
    """A rule that raises refuses the command, unless it fails open or only counts what it would do.

    What it raised is not shown in full, since it may contain secrets.
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
