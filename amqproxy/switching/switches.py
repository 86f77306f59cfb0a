"""The switches of a proxy: where new clients go, and how present ones and their messages follow."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol
from urllib.parse import quote

import msgspec
import trio

from amqproxy.moving.move_job import JobReport, MovedQueue, MoveEnd, MoveJob, QueueReport, Report
from amqproxy.moving.queue_depths import QueueDepth, queue_depths
from amqproxy.process.log import logger
from amqproxy.process.supervision import contained
from amqproxy.proxy.client_moves import MOVED, SESSIONS_A_TURN
from amqproxy.proxy.session.session import Session
from amqproxy.proxy.sessions import for_each
from amqproxy.proxy.upstreams.group import UpstreamGroup
from amqproxy.rules.actions import AnyRule
from amqproxy.rules.context import Client
from amqproxy.rules.matching.match import Match
from amqproxy.rules.observing.hold import Hold
from amqproxy.switching.mover_process import run_mover
from amqproxy.switching.phase import LEAVING, MOVING, Phase, SwitchEvent
from amqproxy.switching.switch import Switch
from amqproxy.switching.switch_file import SwitchFile
from amqproxy.taps.fleet_collectors import SwitchCounts

INTERVAL = 0.25
"""Seconds between two looks at the clients that have to move."""

SETTLED_INTERVAL = 1.0
"""Seconds between two looks while nothing is on its way."""

ROUTED_A_TURN = 200
"""Clients whose switch is looked for in one turn of the loop."""

HOLD_SECONDS = 3600.0
"""Time after which a held publish is refused, the longest that a rule may hold: passing it would lose the order."""


LOOK_SECONDS = 10.0
"""Time for the look at all queues of a broker."""

RELEASE_SECONDS = 10.0
"""Seconds for which publishes are looked for that a withdrawn rule holds, from the last one on."""


class Routed(NamedTuple):
    """A client's routing: the facts known then, the upstream of its route, the one that took it, and its switch."""

    client: Client
    route: str
    upstream: str
    switch: str | None


class RuleHolder(Protocol):
    """The owner of temporary rules, as far as a switch needs them."""

    def insert(self, rule: AnyRule) -> None:
        """Put a rule before all others until it is withdrawn, in place of one with its name."""

    def withdraw(self, name: str) -> None:
        """Remove a rule of `insert`, if it is there."""


class SwitchProgress:
    """Reports of a mover about a switch: one for each queue, and the reason why all of it waits."""

    def __init__(self) -> None:
        self.queues: dict[int, QueueReport] = {}
        self._last: dict[int, int] = {}
        self._before: dict[int, int] = {}
        """Messages of each queue that earlier processes have moved."""
        self.waits = ""
        self.is_done = False

    @property
    def moved(self) -> int:
        """Number of messages that were moved, of all queues."""
        return sum(each.moved for each in list(self.queues.values()))

    @property
    def left(self) -> int:
        """Number of messages that are left, of all queues."""
        return sum(each.left for each in list(self.queues.values()))

    def waiting_for(self, queues: Sequence[MovedQueue]) -> str:
        """Return why something is not moved, with the queue's name if it is about one; "" if nothing waits."""
        if self.waits:
            return self.waits
        reports = list(self.queues.values())
        return next((f"{queues[each.place].name}: {each.text}" for each in reports if each.state == "waits"), "")

    def note(self, report: Report) -> None:
        if isinstance(report, JobReport):
            self.is_done = report.is_done
            self.waits = report.text
        else:
            before, last = self._before.get(report.place, 0), self._last.get(report.place, 0)
            if report.moved < last:  # another process has begun to count
                before = self._before[report.place] = before + last
            self._last[report.place] = report.moved
            self.queues[report.place] = msgspec.structs.replace(report, moved=before + report.moved)
            self.waits = ""


class Switches:
    """The switches that `file` keeps. `groups` returns the upstream groups, `sessions` are those of all clients.

    `end_of` returns the broker and the login with which messages of an upstream are moved, or raises `ValueError`.
    `declared` returns the queues that clients have declared, in one virtual host or in all; `rules` hold publishes.
    """

    def __init__(
        self,
        file: SwitchFile,
        groups: Callable[[], list[UpstreamGroup]],
        sessions: Mapping[int, Session],
        end_of: Callable[[str], MoveEnd],
        declared: Callable[[str | None], Iterable[MovedQueue]],
        rules: RuleHolder,
        move: Callable[[Callable[[], MoveJob], Callable[[Report], None], str], Awaitable[None]] = run_mover,
    ) -> None:
        """`move` moves the messages of jobs. Raise `ConfigError` if the file cannot be read."""
        self._run_mover = move
        self._file = file
        self._groups = groups
        self._sessions = sessions
        self._end_of = end_of
        self._declared = declared
        self._rules = rules
        self._switches = {each.name: each.after(SwitchEvent.RESTARTED) for each in file.load()}
        self._routed: dict[int, Routed] = {}
        self._is_routing = False
        self._progress: dict[str, SwitchProgress] = {}
        self._moved: Counter[str] = Counter()
        """Messages that earlier moves of each switch have moved since the proxy began."""
        self._told: Counter[str] = Counter()
        """Clients that were told to reconnect since then."""
        self._movers: dict[str, trio.CancelScope] = {}
        self._held: dict[str, tuple[str, ...]] = {}
        """The members for whose clients publishes are held, by the switch's name."""
        self._releasing: dict[str, float] = {}
        """Times until which commands may still be held by rules that were withdrawn, by their names."""
        self._due: dict[str, float] = {}
        self._lock = trio.Lock()
        self._routing = trio.Lock()
        self._changed = trio.Event()
        self.hold()

    def __iter__(self) -> Iterator[Switch]:
        return iter(list(self._switches.values()))

    def get(self, name: str) -> Switch | None:
        return self._switches.get(name)

    def progress(self, name: str) -> SwitchProgress:
        """Return the progress of the latest move."""
        return self._progress.get(name) or SwitchProgress()

    def counts(self) -> list[SwitchCounts]:
        """Return the counts of all switches; a scrape calls this in its own thread."""
        found = []
        for switch in self:
            progress, name = self.progress(switch.name), switch.name
            found.append(
                SwitchCounts(
                    name,
                    str(switch.phase),
                    clients=len(self.misplaced(switch)),
                    told=self._told[name],
                    moved=self._moved[name] + progress.moved,
                    left=progress.left,
                    waits=bool(progress.waiting_for(switch.queues)),
                )
            )
        return found

    # --- routes

    def divert(self, group: UpstreamGroup, client: Client) -> UpstreamGroup:
        """Return the group that takes a client of a group's route, and note it."""
        switch = self._of(group.name, client)
        taken = group
        if switch is not None and switch.serving != group.name:
            taken = next((each for each in self._groups() if each.name == switch.serving), group)
        name = None if switch is None else switch.name
        self._routed[client.session] = Routed(client, group.name, taken.name, name)
        return taken

    def _of(self, route: str, client: Client) -> Switch | None:
        """Return the switch that is about a client of a route; the first one, if several are."""
        return next((each for each in self._switches.values() if each.applies(route, client)), None)

    async def _route_again(self) -> None:
        """Note for the present clients which switch is about each, in turns, since a CEL expression may take long."""
        for place, (number, routed) in enumerate(list(self._routed.items()), 1):
            if number in self._routed:
                switch = self._of(routed.route, routed.client)
                self._routed[number] = routed._replace(switch=None if switch is None else switch.name)
            if not place % ROUTED_A_TURN:
                await trio.lowlevel.checkpoint()

    def misplaced(self, switch: Switch) -> list[Session]:
        """Return the sessions of a switch that are not with the upstream that serves them, or are about to be."""
        return [
            self._sessions[number]
            for number, routed in list(self._routed.items())
            if routed.switch == switch.name and routed.upstream != switch.serving and number in self._sessions
        ]

    # --- operators

    async def begin(self, switch: Switch) -> Switch:
        """Keep a new switch, or begin one again that is at its source; raise `ValueError`, or `OSError` of the disk.

        New clients reach the target as soon as this returns.
        """
        known = self._switches.get(switch.name)
        if known is not None and known.phase is not Phase.AT_SOURCE:
            raise ValueError(f"there is a switch `{switch.name}` already: it is {known.state}")
        names = [group.name for group in self._groups()]
        for each in (switch.source, switch.target):
            if each not in names:
                raise ValueError(f"there is no upstream `{each}`: there are {', '.join(names)}")
        if switch.source == switch.target:
            raise ValueError("source and target are the same upstream")
        self._end_of(switch.source)
        self._end_of(switch.target)
        begun = switch.after(SwitchEvent.FORTH)
        async with self._routing:
            self._is_routing = True  # before it is in force: without clients, its messages would be moved at once
            try:
                await self._keep(begun, known, "an operator")
                await self._route_again()
            finally:
                self._is_routing = False
        return begun

    async def turn(self, name: str, event: SwitchEvent) -> Switch:
        """Lead a switch back, or forth again; raise `KeyError`, `ValueError`, or `OSError` of the disk."""
        switch = self._switches[name]
        changed = switch.after(event)
        if changed is switch:
            raise ValueError(f"the switch is {switch.state} already")
        await self._keep(changed, switch, "an operator")
        return changed

    async def forget(self, name: str) -> Switch:
        """Forget a settled switch, after which the routes decide; raise `KeyError`, `ValueError`, or `OSError`."""
        switch = self._switches[name]
        if not switch.is_settled:
            raise ValueError(f"the switch is {switch.state}: it can be forgotten when it is settled")
        async with self._routing:
            async with self._lock:
                self._check(name, switch)
                await self._save([each for each in self if each.name != name])
            await self._route_again()
        return switch

    async def depths(self, name: str) -> list[tuple[MovedQueue, QueueDepth, QueueDepth]]:
        """Return the queues of a switch with their depths at the source and at the target; raise `ValueError`.

        Queues that clients have declared since are among them, if the switch finds queues.
        """
        switch = self._switches[name]
        queues = (self._with_declared(switch) if switch.finds_queues else switch).queues
        found = [await queue_depths(self._end_of(end), queues, LOOK_SECONDS) for end in (switch.source, switch.target)]
        return list(zip(queues, *found, strict=True))

    async def _keep(self, switch: Switch, before: Switch | None, by: str) -> None:
        """Put a switch on the disk, then in force; raise `ValueError` if it is not the one of `before` any more."""
        async with self._lock:
            self._check(switch.name, before)
            await self._save([*(each for each in self if each.name != switch.name), switch])
        self._end_mover(switch.name)
        self.hold()
        self._changed.set()
        logger().info("switch", switch=switch.name, state=switch.state, phase=str(switch.phase), by=by)

    def _check(self, name: str, expected: Switch | None) -> None:
        if self._switches.get(name) is not expected:
            raise ValueError(f"the switch `{name}` has changed meanwhile: look at it again")

    async def _save(self, switches: list[Switch]) -> None:
        await self._file.keep(switches)
        self._switches = {each.name: each for each in switches}

    # --- the way

    async def run(self) -> None:
        """Lead clients and messages until cancelled."""
        self._movers.clear()
        async with trio.open_nursery() as nursery:
            while True:
                self._changed = trio.Event()
                self.hold()
                for number in self._routed.keys() - self._sessions.keys():
                    del self._routed[number]
                for switch in () if self._is_routing else self:
                    with contained("switch failed", switch=switch.name):
                        await self._advance(switch, nursery)
                with contained("publishes not released"):
                    await self._release()
                is_settled = all(each.is_settled for each in self) and not self._releasing
                with trio.move_on_after(SETTLED_INTERVAL if is_settled else INTERVAL):
                    await self._changed.wait()

    async def _advance(self, switch: Switch, nursery: trio.Nursery) -> None:
        misplaced = self.misplaced(switch)
        if misplaced:
            await self._tell(switch, misplaced)
        elif switch.phase in LEAVING:
            found = self._with_declared(switch) if switch.finds_queues else switch
            if not found.queues:
                logger().warning("no queue to move", switch=switch.name, reason="none was named, defined or declared")
            self._moved[switch.name] += self.progress(switch.name).moved
            self._progress[switch.name] = SwitchProgress()
            await self._keep(found.after(SwitchEvent.CLIENTS_GONE), switch, "the proxy")
        elif switch.phase in MOVING:
            if not switch.queues or self.progress(switch.name).is_done:
                await self._keep(switch.after(SwitchEvent.EMPTIED), switch, "the proxy")
            elif switch.name not in self._movers:
                self._movers[switch.name] = trio.CancelScope()
                nursery.start_soon(self._move, switch, self._movers[switch.name])

    async def _tell(self, switch: Switch, misplaced: list[Session]) -> None:
        """Tell clients to reconnect, as many as the rate allows, chosen at random."""
        due = self._due.get(switch.name, 0.0) + switch.rate * INTERVAL
        self._due[switch.name] = due % 1
        ready = [session for session in misplaced if session.is_open or session.unread_protocol]
        random.shuffle(ready)
        chosen = {session.number: session for session in ready[: int(due)]}
        self._told[switch.name] += len(chosen)
        await for_each(chosen, lambda session: session.drain(MOVED), SESSIONS_A_TURN)

    def _with_declared(self, switch: Switch) -> Switch:
        """Return the switch with the queues that clients have declared and it does not have."""
        known = {(queue.vhost, queue.name) for queue in switch.queues}
        further = [each for each in self._declared(switch.vhost) if (each.vhost, each.name) not in known]
        return msgspec.structs.replace(switch, queues=(*switch.queues, *further))

    # --- messages

    async def _move(self, switch: Switch, scope: trio.CancelScope) -> None:
        progress = self._progress.setdefault(switch.name, SwitchProgress())
        try:
            with scope, contained("mover failed", switch=switch.name):
                await self._run_mover(lambda: self._job(switch), progress.note, switch.name)
        finally:
            if self._movers.get(switch.name) is scope:
                del self._movers[switch.name]
            self._changed.set()

    def _job(self, switch: Switch) -> MoveJob:
        return MoveJob(
            source=self._end_of(switch.left),
            target=self._end_of(switch.serving),
            queues=switch.queues,
            strict=switch.strict,
            lock=f"{self._file.path}.{quote(switch.name, safe='')}.lock",
        )

    def _end_mover(self, name: str) -> None:
        scope = self._movers.pop(name, None)
        if scope is not None:
            scope.cancel()

    # --- publishes

    def hold(self) -> None:
        """Hold publishes of strict switches that are on their way, and of no others."""
        wanted = {each.name: tuple(self._members(each.serving)) for each in self if each.strict and not each.is_settled}
        for name, members in wanted.items():
            if self._held.get(name) != members:
                condition = self._switches[name].holding_condition(list(members))
                hold = Hold(
                    name=_rule(name),
                    match=Match(method="basic.publish"),
                    when=condition,
                    timeout=HOLD_SECONDS,
                    on_timeout="refuse",
                )
                self._rules.insert(hold)
        for name in self._held.keys() - wanted.keys():
            self._rules.withdraw(_rule(name))
            self._releasing[_rule(name)] = trio.current_time() + RELEASE_SECONDS
        self._held = wanted

    def _members(self, upstream: str) -> Iterator[str]:
        for group in self._groups():
            if group.name == upstream:
                yield from sorted(member.address for member in group.members)

    async def _release(self) -> None:
        """Release the publishes that withdrawn rules still hold.

        Sessions get the newest rules in turns: one may hold a publish behind the look at it.
        """
        now = trio.current_time()
        held = {_rule(name) for name in self._held}
        self._releasing = {name: end for name, end in self._releasing.items() if end > now and name not in held}

        def release(session: Session) -> None:
            interceptor = session.interceptor
            if interceptor is None:
                return
            for number, (_, direction) in list(interceptor.waiting.items()):
                waiting = direction.waiting
                if waiting is not None and waiting.hold is not None and waiting.hold.name in self._releasing:
                    self._releasing[waiting.hold.name] = now + RELEASE_SECONDS
                    session.release(number, None)

        if self._releasing:
            await for_each(self._sessions, release, SESSIONS_A_TURN)


def _rule(name: str) -> str:
    """Return the name of the rule that holds publishes of a switch."""
    return f"switch {name}"
