"""What the rules make of a command: who is asked, in which order, and what it comes to.

Rules are asked in the order of the config, each about the command as those before have left it; the first whose word is
final ends it. They know things by the names that the client uses: what the server says is given those names back first,
and what the client says takes the server's last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.frames import HEARTBEAT, Frame
from amqproxy.amqp091.grammar import CLIENT, SERVER, Peer
from amqproxy.amqp091.methods import ConnectionOpenOk
from amqproxy.rules.case import Case, Counts
from amqproxy.rules.rule import Memory, Rule
from amqproxy.rules.seen import ChannelFacts, Client, Seen
from amqproxy.rules.table import Row, Table
from amqproxy.rules.verdict import Close, Impairment, Stage, Verdict

INTERNAL_ERROR = 541


class RuleSet:
    """The rules of one config, with what sessions share of them. It never changes; a reload makes another."""

    def __init__(self, rules: Iterable[Rule], previous: RuleSet | None = None) -> None:
        before = {case.rule.name: case for case in previous.cases} if previous else {}
        self.cases: tuple[Case, ...] = tuple(
            [_case(rule, place, before.get(rule.name)) for place, rule in enumerate(rules)]
        )
        self._tables: dict[tuple[Case, ...], Table] = {}

    @property
    def rules(self) -> tuple[Rule, ...]:
        return tuple([case.rule for case in self.cases])

    def judge(self, client: Client) -> Judge:
        """Whoever judges one session."""
        return Judge(self, client)

    def replaced(self, rules: Iterable[Rule]) -> RuleSet:
        """The rules of a new config; those that continue an old one go on with what it remembers and has counted."""
        return RuleSet(rules, self)

    def counts(self) -> dict[str, Counts]:
        """By the name of the rule; they go on counting."""
        return {case.rule.name: case.counts for case in self.cases}

    def table(self, cases: tuple[Case, ...], retired: tuple[Case, ...]) -> Table:
        """The table for a client of whom these rules can hold; clients that are alike share one."""
        if retired:
            return Table(cases, retired)
        table = self._tables.get(cases)
        if table is None:
            if len(self._tables) >= MAX_TABLES:
                self._tables.clear()
            table = self._tables[cases] = Table(cases)
        return table


MAX_TABLES = 256
"""How many kinds of client, told apart by the rules that can hold of them, are remembered."""


def _case(rule: Rule, place: int, old: Case | None) -> Case:
    if rule.when:
        raise ValueError(f"rule '{rule.name}': `when` is not known yet")
    counts = old.counts if old else Counts()
    shared = old.shared if old and rule.continues(old.rule) else rule.begin()
    return Case(rule, place, rule.match.conditions(), shared, counts)


class Judge:
    """Judges the commands of one session."""

    def __init__(self, ruleset: RuleSet, client: Client) -> None:
        self.ruleset = ruleset
        self._memories: dict[Case, Memory] = {}
        self._started: set[Case] = set()
        self._retired: tuple[Case, ...] = ()
        self.know(client)

    def know(self, client: Client) -> None:
        """Take what is known of the client now. To be told as soon as the client has said its user, its properties or
        its vhost, and before the command that says so is judged."""
        self.client = client
        probe = Seen(sender=CLIENT, command=_NOTHING, client=client)
        cases = tuple([case for case in self.ruleset.cases if all(c.holds(probe) for c in case.about_client)])
        self._cases = cases
        self._table = self.ruleset.table(cases, self._retired)

    def wants(self, sender: Peer) -> bytes:
        """A 1 at the index of each method of `sender` that is to be staged, as `FrameReader.want` takes it."""
        return self._table.wants[sender]

    def wants_all(self, sender: Peer) -> bool:
        """Are heartbeats to be staged too?"""
        return self._table.heartbeats[sender] is not None

    def stage(self, sender: Peer, frame: Frame, channel: ChannelFacts) -> Stage:
        """How much of the command that `frame` begins must have come before it can be judged; NOTHING: it passes.

        `ProtocolError` when the method is malformed.
        """
        row = self._table.row(sender, frame.index)
        if row is None:
            return Stage.NOTHING
        seen = Seen(sender=sender, command=Command.received([frame]), client=self.client, channel=channel)
        return self._staged(row, seen)

    def _staged(self, row: Row, seen: Seen) -> Stage:
        stage = row.restoring_stage
        for case in row.asked:
            if case.stage > stage:
                stage = case.stage
        return stage

    def judge(self, seen: Seen) -> Verdict:
        """What is to become of a command, of which as much has come as `stage` asked for.

        A rule that raises refuses it. `ProtocolError` when it is malformed, which is its sender's fault.
        """
        command = seen.command
        is_heartbeat = bool(command.frames) and command.frames[0].kind == HEARTBEAT
        row = self._table.row(seen.sender, -1 if is_heartbeat else command.index)
        if row is None:
            return Verdict(command=command)
        if not is_heartbeat:
            _ = command.method, command.header
        return self._walked(row, seen, is_heartbeat)

    def _walked(self, row: Row, seen: Seen, is_heartbeat: bool) -> Verdict:
        verdict = Verdict(command=seen.command)
        if seen.sender is SERVER:
            verdict = self._restored(row, seen, verdict)
            if verdict.command is None:
                return verdict
        verdict = self._decided(row, seen, verdict, is_heartbeat)
        if seen.sender is CLIENT and verdict.command is not None and verdict.close is None:
            verdict = self._restored(row, seen, verdict)
        return verdict

    def _decided(self, row: Row, seen: Seen, verdict: Verdict, is_heartbeat: bool) -> Verdict:
        place = -1
        seen = _after(seen, verdict)
        candidates = row.asked if is_heartbeat else row.candidates(seen.command.method)
        while True:
            for case in candidates:
                if case.place <= place:
                    continue
                place = case.place
                try:
                    if not case.holds(seen):
                        continue
                    decided = case.rule.decide(seen, self._memory(case))
                except Exception:  # noqa: BLE001 - a rule may raise anything, and must then refuse
                    case.counts.errors += 1
                    if case.is_shadow:
                        continue
                    return verdict.then(failed(case.rule, seen))
                if not decided.is_final and not acts(decided, seen):
                    continue
                if case.is_shadow:
                    case.counts.shadow_hits += 1
                    verdict = verdict.then(Verdict(command=seen.command, marks=(f"{case.rule.name} (shadow)",)))
                    continue
                case.counts.hits += 1
                if acts(decided, seen):
                    decided = msgspec.structs.replace(decided, marks=(*decided.marks, case.rule.name))
                verdict = verdict.then(decided)
                if decided.is_final or decided.command is None or decided.close is not None:
                    return verdict
                if decided.command is not seen.command or decided.shown is not None:
                    seen = _after(seen, verdict)
                    if not is_heartbeat:
                        candidates = row.candidates(seen.command.method)
                        break
            else:
                return verdict

    def _restored(self, row: Row, seen: Seen, verdict: Verdict) -> Verdict:
        """The verdict, with the names in its command given back that rules have changed in the other direction."""
        for case in row.restoring:
            seen = _after(seen, verdict)
            try:
                restored = case.rule.restore(seen, self._memory(case))
            except Exception:  # noqa: BLE001 - as above
                case.counts.errors += 1
                return verdict.then(failed(case.rule, seen))
            verdict = verdict.then(restored)
            if verdict.command is None:
                break
        return verdict

    def _memory(self, case: Case) -> Memory:
        memory = self._memories.get(case)
        if memory is None:
            memory = self._memories[case] = Memory(case.shared, case.rule.begin_session())
        return memory

    # --- the session itself

    def start(
        self, *, now: float, time: float, random: Callable[[], float], is_open: bool = False
    ) -> tuple[Impairment, ...]:
        """What is done to the octets from here on. To be asked before the first octet, and with connection.open-ok."""
        impairments: list[Impairment] = []
        seen = Seen(sender=CLIENT, command=_NOTHING, client=self.client, now=now, time=time, random=random)
        for case in self._cases:
            if not case.rule.acts_at_start or case in self._started or (case.is_late and not is_open):
                continue
            self._started.add(case)
            try:
                found = case.rule.start(self.client, self._memory(case), now, random) if case.holds(seen) else ()
            except Exception:  # noqa: BLE001 - there is no command yet to refuse
                case.counts.errors += 1
                continue
            if found and case.is_shadow:
                case.counts.shadow_hits += 1
            elif found:
                case.counts.hits += 1
                impairments += found
        return tuple(impairments)

    def channel_closed(self, number: int) -> None:
        """The channel is no more on the client's leg."""
        for case, memory in self._memories.items():
            case.rule.channel_closed(number, memory)

    def session_over(self) -> None:
        """The session is no more; to be told once."""
        memories, self._memories = self._memories, {}
        for case, memory in memories.items():
            case.rule.session_over(memory)

    def moved(self, ruleset: RuleSet) -> Judge:
        """The judge of the same session by the rules of a new config, in whose stead this one is no longer used.

        A rule that continues an old one goes on with what it remembers of the session. Names that a rule has changed
        which is no more still come back.
        """
        judge = Judge(ruleset, self.client)
        old = {case.rule.name: case for case in (*self._retired, *self.ruleset.cases)}
        for case in ruleset.cases:
            before = old.get(case.rule.name)
            if before is not None and case.rule.continues(before.rule):
                del old[case.rule.name]
                if before in self._started:
                    judge._started.add(case)
                memory = self._memories.pop(before, None)
                if memory is not None:
                    judge._memories[case] = memory
        retired = [case for case in old.values() if any(case.rule.restores(peer) for peer in (CLIENT, SERVER))]
        for case in retired:
            if case in self._memories:
                judge._memories[case] = self._memories.pop(case)
        self.session_over()
        judge._retired = tuple([case for case in retired if case in judge._memories])
        judge.know(self.client)
        return judge


_NOTHING = Command(0, ConnectionOpenOk())
"""What stands for a command where only the client matters."""


def _after(seen: Seen, verdict: Verdict) -> Seen:
    """What the next rule sees."""
    if verdict.command is seen.command and verdict.shown is seen.shown:
        return seen
    return msgspec.structs.replace(seen, command=verdict.command, shown=verdict.shown)


def acts(verdict: Verdict, seen: Seen) -> bool:
    """Does anything become of the command but its passing?"""
    return verdict.command is not seen.command or verdict != Verdict(
        command=verdict.command, is_final=verdict.is_final, returned=verdict.returned
    )


def failed(rule: Rule, seen: Seen) -> Verdict:
    """A rule that raises refuses the command."""
    scope = Scope.CHANNEL if seen.command.channel else Scope.CONNECTION
    close = Close(scope, INTERNAL_ERROR, f"INTERNAL_ERROR - rule '{rule.name}' failed")
    return Verdict(command=None, close=close, marks=(rule.name,), is_final=True)
