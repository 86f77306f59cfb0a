"""Answers to requests about a proxy: lists, reloads, releases of held commands, and changes of rules and sessions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec

from amqproxy import __version__
from amqproxy.amqp091.transitions import Peer
from amqproxy.control import session_control
from amqproxy.control.broker_control import BrokerControl
from amqproxy.control.client_name import client_name, shown_text
from amqproxy.control.dialects import Entry
from amqproxy.control.held_commands import HeldCommand, held_command
from amqproxy.control.management.broker_management import BrokerManagement
from amqproxy.control.numbered import numbered, numbered_or_all
from amqproxy.control.recording_control import RecordingControl
from amqproxy.control.request import (
    BROKER_REQUESTS,
    MANAGEMENT_REQUESTS,
    PROTOCOL,
    REQUESTS,
    SWITCH_REQUESTS,
    AddRule,
    AnyRequest,
    BackSwitch,
    BeginSwitch,
    ChangeBroker,
    CheckRules,
    CloseBrokerConnection,
    CloseSession,
    CompareSwitch,
    DrainUpstream,
    EjectUpstream,
    EndRule,
    EnforceRule,
    ForgetSwitch,
    ForthSwitch,
    GetRules,
    Hello,
    ListBrokerConnections,
    ListBrokerObjects,
    ListBrokerQueues,
    ListBrokerTransactions,
    ListChannels,
    ListConnections,
    ListConsumers,
    ListHeld,
    ListPools,
    ListRules,
    ListSessions,
    ListSwitches,
    ListSwitchQueues,
    ListUpstreams,
    LogInToBroker,
    More,
    Pause,
    RebalanceUpstream,
    Release,
    Reload,
    RemoveRule,
    RestoreUpstream,
    Resume,
    SampleBroker,
    SetRules,
    SettleSwitch,
    ShadowRule,
    ShowBroker,
    ShowBrokerMessages,
    ShowRecording,
    ShowStats,
    ShowTopology,
    StartRecording,
    StopRecording,
    Subscribe,
    WatchHeld,
    WeighUpstream,
)
from amqproxy.control.request_error import RequestError
from amqproxy.control.rule_control import RuleControl, RuleOwner
from amqproxy.control.rule_reader import RuleReader
from amqproxy.control.session_entries import channel_entries, connection_entry, consumer_entries
from amqproxy.control.statistics import Statistics
from amqproxy.control.switch_control import SwitchControl
from amqproxy.control.upstream_control import UpstreamControl
from amqproxy.proxy.interception.delayed_commands import Direction
from amqproxy.proxy.interception.interceptor import Interceptor
from amqproxy.proxy.interception.waiting_command import WaitingCommand
from amqproxy.proxy.session.session import Session
from amqproxy.rules.access.refuse import WAYS, Refuse, Way
from amqproxy.rules.context import CommandContext
from amqproxy.rules.rule import RuleState
from amqproxy.rules.verdict import Verdict
from amqproxy.taps.topology.observed_topology import ObservedTopology

Response = dict[str, Any]


class ListResponse(NamedTuple):
    """A list in a response. The entries are made lazily, since there may be many.

    None stands for an object that is not listed: it lets the caller yield to other tasks.

    `more` are the response's other keys.
    """

    name: str
    entries: Iterator[Any]
    more: Mapping[str, Any] = {}


class StreamedList(NamedTuple):
    """A list that is sent in pieces, each a response with `more` true except the last; None as in a `ListResponse`."""

    name: str
    entries: Iterator[Any]


class NotReloaded(Exception):
    """The config has errors, or there is none; the text gives the reason."""


class SessionRegistry(RuleOwner, Protocol):
    """The part of a `ProxyServer` that the handler uses."""

    sessions: dict[int, Session]
    topology: ObservedTopology | None


class RequestHandler:
    """Handler of requests about one proxy. `reload` returns changed keys that need a restart, or raises `NotReloaded`.

    `now` is the sessions' clock, `time` the time of day, both in seconds. `statistics` are those of the process, if
    they are kept. `rules` changes the rules, `recording` controls the recording if this proxy can record, `broker`
    shows the integrated broker if there is one, and `management` changes it; `upstreams` are the members of
    upstreams, `switches` the switches between them if there may be any. `listen` returns the addresses where clients
    connect.
    """

    def __init__(
        self,
        registry: SessionRegistry,
        reload: Callable[[], Awaitable[tuple[str, ...]]],
        *,
        now: Callable[[], float],
        time: Callable[[], float],
        statistics: Statistics | None = None,
        rules: RuleControl | None = None,
        recording: RecordingControl | None = None,
        broker: BrokerControl | None = None,
        management: BrokerManagement | None = None,
        upstreams: UpstreamControl | None = None,
        switches: SwitchControl | None = None,
        listen: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._listen = listen
        self._broker_control = broker
        self._management = management
        self._upstreams = upstreams
        self._switches = switches
        self._recording = recording
        self._statistics = statistics
        self._registry = registry
        self._rule_control = rules or RuleControl(registry)
        self._reload = reload
        self._reader = RuleReader()
        self._now = now
        self._time = time

    async def answered(self, request: AnyRequest) -> Response | ListResponse | StreamedList:
        """Return the response, as `answer` does, or wait for it.

        Rules are read in a thread, those of one request at a time, so that no client of the proxy waits for that.
        """
        if isinstance(request, StartRecording | StopRecording | ShowRecording):
            if self._recording is None:
                raise RequestError("not-observable", "this proxy does not record")
            return await self._recording.answer(request)
        if isinstance(request, Reload):
            return await self._reloaded()
        if isinstance(request, ChangeBroker):
            return await self._broker_management().change(request)
        if isinstance(request, LogInToBroker):
            return await self._broker_management().login(request)
        if isinstance(request, CompareSwitch):
            return ListResponse("queues", iter(await self._switch_control().compared(request.switch)))
        if isinstance(request, BeginSwitch | BackSwitch | ForthSwitch | SettleSwitch | ForgetSwitch):
            return await self._switch_control().change(request)
        control = self._rule_control
        if isinstance(request, AddRule):
            return control.add(request, await self._reader.read(partial(control.read_one, request)))
        if not isinstance(request, CheckRules):
            return self.answer(request)
        found = await self._reader.read(partial(control.read, request))
        return control.apply(found) if isinstance(request, SetRules) else found.answer

    async def _reloaded(self) -> Response:
        try:
            restart = await self._reload()
        except NotReloaded as fault:
            raise RequestError("not-reloaded", str(fault)) from None
        return {"rules": len(self._registry.rules.lasting), "restart": list(restart)}

    def answer(self, request: AnyRequest) -> Response | ListResponse | StreamedList:
        """Return the response to a request that need not wait. `RequestError` if it cannot be carried out."""
        match request:
            case Hello():
                left_out = frozenset() if self._broker_control else BROKER_REQUESTS
                left_out |= frozenset() if self._management else MANAGEMENT_REQUESTS
                left_out |= frozenset() if self._switches else SWITCH_REQUESTS
                requests = [name for name in REQUESTS if name not in left_out]
                return {
                    "protocol": PROTOCOL,
                    "version": __version__,
                    "requests": requests,
                    "listen": list(self._listen()),
                }
            case ListConnections():
                return ListResponse("connections", map(connection_entry, list(self._registry.sessions.values())))
            case ListChannels():
                return ListResponse("channels", _of_each(self._chosen(request.session), channel_entries))
            case ListConsumers():
                return ListResponse("consumers", _of_each(self._chosen(request.session), consumer_entries))
            case ShowTopology():
                topology = self._registry.topology
                if topology is None:
                    raise RequestError("not-observable", "this proxy takes no note of what clients declare")
                return ListResponse("topology", self._objects(topology, request), {"forgotten": topology.forgotten})
            case ShowStats():
                if self._statistics is None:
                    raise RequestError("not-observable", "this proxy counts nothing")
                return ListResponse(
                    "metrics",
                    self._statistics.samples(),
                    {"stats": self._statistics.process() | {"temporary_rules": len(self._registry.rules.temporary)}},
                )
            case ListRules():
                return ListResponse("rules", self._rules())
            case SetRules():
                return self._rule_control.set(request)
            case CheckRules():
                return self._rule_control.check(request)
            case GetRules():
                return self._rule_control.get()
            case AddRule():
                return self._rule_control.add(request, self._rule_control.read_one(request))
            case EndRule():
                return self._rule_control.end(request)
            case RemoveRule():
                return self._rule_control.remove(request)
            case ShadowRule() | EnforceRule():
                return self._rule_control.switch(request)
            case ListSessions():
                return ListResponse("sessions", map(self._session, list(self._registry.sessions.values())))
            case ListHeld() | WatchHeld():
                return ListResponse("held", self._held(request.body))
            case Release():
                self._release(request)
                return {}
            case CloseSession():
                session_control.close(numbered(self._registry.sessions, request.session), request)
                return {}
            case Pause():
                session_control.pause(numbered(self._registry.sessions, request.session), request)
                return {}
            case Resume():
                session_control.resume(numbered(self._registry.sessions, request.session), request)
                return {}
            case ListBrokerQueues() | ListBrokerConnections() | ListBrokerTransactions() | ShowBrokerMessages():
                if self._broker_control is None:
                    raise RequestError("not-observable", "this proxy has no integrated broker")
                return ListResponse(*self._broker_control.entries(request))
            case ListPools():
                return ListResponse("pools", self._upstream_control().pools())
            case ShowBroker():
                return self._broker_management().facts()
            case CloseBrokerConnection():
                self._broker_management().close(request.session, request.text)
                return {}
            case ListBrokerObjects():
                return StreamedList("objects", self._broker_management().objects(request))
            case SampleBroker():
                return StreamedList("objects", self._broker_management().samples(request))
            case ListUpstreams():
                return ListResponse("upstreams", self._upstream_control().entries(self._now()))
            case DrainUpstream() | EjectUpstream() | RestoreUpstream() | WeighUpstream() | RebalanceUpstream():
                return self._upstream_control().change(request, self._now())
            case ListSwitches():
                return ListResponse("switches", self._switch_control().entries())
            case ListSwitchQueues():
                return ListResponse("queues", self._switch_control().queues(request.switch))
            case Subscribe() | More():
                raise RequestError("not-observable", "only a connection can subscribe")
            case (
                Reload()
                | StartRecording()
                | StopRecording()
                | ShowRecording()
                | ChangeBroker()
                | LogInToBroker()
                | CompareSwitch()
                | BeginSwitch()
                | BackSwitch()
                | ForthSwitch()
                | SettleSwitch()
                | ForgetSwitch()
            ):
                raise RequestError("not-observable", "this takes its time: ask `answered`")

    def _broker_management(self) -> BrokerManagement:
        if self._management is None:
            raise RequestError("not-observable", "this proxy has no integrated broker")
        return self._management

    def _upstream_control(self) -> UpstreamControl:
        if self._upstreams is None:
            raise RequestError("not-observable", "this proxy has no upstreams that can be listed")
        return self._upstreams

    def _switch_control(self) -> SwitchControl:
        if self._switches is None:
            raise RequestError("not-observable", "this proxy switches nothing: its config has no [switching]")
        return self._switches

    def held(self, session: Session, number: int, excerpt: int) -> HeldCommand | None:
        """Return the held command of that number; None if it no longer waits, or is only delayed."""
        interceptor = session.interceptor
        found = interceptor.waiting.get(number) if interceptor is not None else None
        return None if found is None else self._described(session, found[1], excerpt)

    # --- lists

    def _rules(self) -> Iterator[Response | None]:
        for session in self._chosen(None):
            session.count_unseen()
            yield None
        rules = self._registry.rules
        counts = rules.counts()
        for rule in rules.rules:
            ends_at = self._rule_control.ends_at(rule.name, self._time() - self._now())
            yield ({} if ends_at is None else {"ends_at": ends_at}) | {
                "name": rule.name,
                "action": type(rule).__struct_config__.tag,
                "mode": rule.mode,
                "hits": counts[rule.name].hits,
                "shadow_hits": counts[rule.name].shadow_hits,
                "errors": counts[rule.name].errors,
                "verdicts": counts[rule.name].verdicts,
                "last_failure": counts[rule.name].last_failure,
            }

    def _objects(self, topology: ObservedTopology, request: ShowTopology) -> Iterator[Any]:
        """List exchanges, queues, bindings and consumers, then deleted objects if they are requested."""
        vhost = request.vhost
        yield from topology.entries(vhost)
        for consumer in _of_each(self._chosen(None), consumer_entries):
            if consumer is not None and vhost in (None, consumer["vhost"]):
                yield {"kind": "consumer"} | consumer
            else:
                yield None
        if request.deleted:
            yield from topology.deleted(vhost)

    def _session(self, session: Session) -> Response:
        client, traffic = session.shown, session.traffic
        interceptor = session.interceptor
        return {
            "session": session.number,
            "connection": session.name,
            "state": "paused" if session.is_paused else session.state,
            "user": shown_text(client.user),
            "vhost": shown_text(client.vhost),
            "product": shown_text(client.properties.get("product", "")),
            "name": client_name(client.properties),
            "channels": 0 if traffic is None else traffic.channel_count,
            "paused_channels": session.paused_channels,
            "held": 0
            if interceptor is None
            else sum(direction.is_held for _, direction in interceptor.waiting.values()),
        }

    def _held(self, excerpt: int) -> Iterator[HeldCommand | None]:
        """List the held commands that still wait when their entry is made; None after each session."""
        for session in list(self._registry.sessions.values()):
            if session.interceptor is not None:
                for direction in [direction for _, direction in session.interceptor.waiting.values()]:
                    yield self._described(session, direction, excerpt)
            yield None

    def _described(self, session: Session, direction: Direction, excerpt: int) -> HeldCommand | None:
        if direction.waiting is None or not direction.is_held:
            return None
        ahead = self._time() - self._now()
        return held_command(
            direction.waiting,
            direction.sender,
            session=session.number,
            connection=session.name,
            ahead=ahead,
            excerpt=excerpt,
        )

    # --- releases of held commands

    def _chosen(self, number: int | None) -> Iterator[Session]:
        """Return the session of that number, or all, without sessions that have ended when it is their turn."""
        sessions = self._registry.sessions
        return (session for session in numbered_or_all(sessions, number) if session.number in sessions)

    def _release(self, request: Release) -> None:
        session = numbered(self._registry.sessions, request.session)
        interceptor = session.interceptor
        found = interceptor.waiting.get(request.number) if interceptor is not None else None
        if interceptor is None or found is None or found[1].waiting is None or not found[1].is_held:
            raise RequestError(
                "not-held", f"session {request.session} has nothing held under the number {request.number}"
            )
        channel_interceptor, direction = found
        waiting = found[1].waiting
        context = _context_of(interceptor, channel_interceptor.number, direction.sender, waiting)
        verdict = _verdict(request, waiting, context)
        what = _name_of(waiting, channel_interceptor.number)
        session.release(request.number, verdict, note=f"{what} {_outcome(request)} by an operator")


def _of_each(
    sessions: Iterable[Session], entries: Callable[[Iterable[Session]], Iterator[Entry]]
) -> Iterator[Entry | None]:
    """Yield the entries of each session, then None, since very many sessions may have none."""
    for session in sessions:
        yield from entries([session])
        yield None


def _name_of(waiting: WaitingCommand, channel: int) -> str:
    """Describe a held command, for the log."""
    rule = "" if waiting.hold is None else f", held by rule {waiting.hold.name!r},"
    return f"{waiting.original.method.name} on channel {channel}{rule}"


def _outcome(request: Release) -> str:
    """Name an operator's decision, for the log."""
    decided = {"pass": "released", "refuse": "refused", "drop": "dropped"}[request.verdict]
    return decided if request.edit is None or request.verdict != "pass" else "edited and released"


def _context_of(
    interceptor: Interceptor[Any, Any], channel: int, sender: Peer, waiting: WaitingCommand
) -> CommandContext:
    return CommandContext(
        sender=sender,
        command=waiting.verdict.command or waiting.original,
        client=interceptor.client,
        channel=interceptor.facts(channel),
        now=interceptor.now,
        time=interceptor.time(),
        random=interceptor.random,
    )


def _verdict(request: Release, waiting: WaitingCommand, context: CommandContext) -> Verdict | None:
    """Return the verdict that a release gives a held command; None for the rules' own verdict."""
    if request.verdict == "drop":
        return _refused(waiting, context, "drop")
    if request.verdict == "refuse":
        return _refused(waiting, context, request.way, request.code, request.text)
    if request.edit is None:
        return None
    verdict = waiting.verdict
    if verdict.command is None:
        raise RequestError("not-passing", "the rules let it go no further, and so there is nothing to edit")
    try:
        edited = request.edit.of(verdict.command, context)
        _ = edited.encode(0)
    except (ValueError, OverflowError) as error:
        raise RequestError("wrong-edit", str(error)) from None
    shown = verdict.shown
    if shown is not None:
        shown = request.edit.covered(verdict.command, shown, edited)
    return msgspec.structs.replace(verdict, command=edited, shown=shown)


def _refused(
    waiting: WaitingCommand,
    context: CommandContext,
    way: Way | None,
    code: int | None = None,
    text: str | None = None,
) -> Verdict:
    name = context.command.method.name
    ways = WAYS.get((context.sender, name))
    if ways is None:
        raise RequestError(
            "not-refusable", f"{name} of the {context.sender} cannot be refused or dropped: the peer waits for it"
        )
    if way is not None and way not in ways:
        raise RequestError("not-refusable", f"{name} has no `{way}`: there is {', '.join(ways)}")
    assert waiting.hold is not None
    literal = None if text is None else text.replace("{", "{{").replace("}", "}}")
    rule = Refuse(name=waiting.hold.name, way=way, code=code, text=literal)
    verdict = rule.decide(context, RuleState(None, None))
    assert verdict.command is None
    return msgspec.structs.replace(verdict, marks=waiting.verdict.marks, tags=waiting.verdict.tags)
