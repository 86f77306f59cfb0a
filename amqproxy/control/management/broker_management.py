"""Answers to the requests of the management API: facts about the broker, logins, and lists of its objects."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import gettempdir
from typing import Any, NamedTuple

import trio

from amqproxy.amqp091.errors import PreconditionFailed
from amqproxy.broker.access.token_user import TokenUser
from amqproxy.broker.access.users import LoginRefused, User
from amqproxy.broker.broker import Broker
from amqproxy.broker.server.clock import current_time
from amqproxy.broker.server.machine_resources import disk_free, memory_in_use, open_files
from amqproxy.broker.server.served_connection import ServedConnection
from amqproxy.broker.server.token_logins import TokenLogins
from amqproxy.broker.storage.journal import Journal
from amqproxy.control.changes.actor import Actor, Unfinished
from amqproxy.control.changes.any_change import applied
from amqproxy.control.management.objects import KINDS, Selection, brief_queue_entry, queue_entry
from amqproxy.control.management.queue_pages import queue_page
from amqproxy.control.management.samples import Row, Samples
from amqproxy.control.numbered import numbered
from amqproxy.control.request import ChangeBroker, ListBrokerObjects, LogInToBroker, QueuePage, SampleBroker
from amqproxy.control.request_error import RequestError
from amqproxy.process.log import logger
from amqproxy.shovels.shovel_states import ShovelStates
from amqproxy.tokens.token_claims import is_token

Entry = dict[str, Any]

VHOSTS_A_TURN = 16
"""Virtual hosts that are compared with a token's scopes in one turn of the loop."""


class ListenerFacts(NamedTuple):
    """One of the broker's listeners, as management APIs list it."""

    host: str
    port: int
    tls: bool


class BrokerManagement:
    """The broker behind one management API. `time` is the time of day in seconds, `started` that of the start."""

    def __init__(
        self,
        broker: Broker,
        served: Mapping[int, ServedConnection],
        listeners: Sequence[ListenerFacts] = (),
        *,
        directory: Path | None = None,
        most_connections: int | None = None,
        tokens: TokenLogins | None = None,
        shovels: ShovelStates | None = None,
        started: float = 0.0,
        time: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._broker = broker
        self._served = served
        self._samples = Samples(broker, served)
        self._listeners = list(listeners)
        self._directory = directory
        self._most_connections = most_connections
        self._tokens = tokens
        self._shovels = ShovelStates(broker, is_enabled=False) if shovels is None else shovels
        self._vhost_names: tuple[str, ...] = ()
        self._started = started
        self._time = time

    def facts(self) -> Entry:
        """Return the broker's version, limits, resources and numbers of objects."""
        broker = self._broker
        return {
            "version": broker.profile.version,
            "node": broker.node,
            "cluster_name": _cluster_name(broker),
            "exchange_types": sorted(broker.exchange_types),
            "mechanisms": list(broker.mechanisms),
            "listeners": [each._asdict() for each in self._listeners],
            "pid": os.getpid(),
            "uptime": self._time() - self._started,
            "memory": memory_in_use(),
            "memory_limit": broker.memory_limit,
            "disk_free": disk_free(self._directory or Path(gettempdir())),
            "disk_free_limit": broker.disk_free_limit,
            "alarms": sorted(broker.alarms),
            "directory": None if self._directory is None else str(self._directory),
            "consumer_timeout": broker.consumer_timeout,
            "frame_max": broker.frame_max,
            "files": open_files(),
            "files_limit": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            "most_connections": self._most_connections,
            "churn": broker.events.churn.values(),
            "disk_counts": broker.disk_counts,
            "connections": sum(each.vhost is not None for each in broker.connections),
            "features": {
                name: {"phase": phase, "permitted": broker.profile.permits(name)}
                for name, phase in broker.profile.phases.items()
            },
        }

    async def login(self, request: LogInToBroker) -> Entry:
        """Return a user's tags, and the virtual hosts that it may use. `RequestError` for a wrong password or token."""
        broker = self._broker
        try:
            if request.has_token or (request.takes_token and self._tokens is not None and is_token(request.password)):
                user = await self._user_of(request.password)
                user.check_origin(is_loopback=request.loopback)
            else:
                user = broker.log_in_by_password(request.user, request.password, is_loopback=request.loopback)
        except LoginRefused as refusal:
            raise RequestError("refused", str(refusal)) from None
        return {
            "name": user.name,
            "tags": list(user.tags),
            "vhosts": await self._vhosts_of(user),
            "has_vhost": request.vhost is None or request.vhost in broker.vhosts,
            "is_internal": user.is_internal,
        }

    async def _vhosts_of(self, user: User) -> list[str]:
        """Return the virtual hosts that a user may enter; those of a token are compared in several turns."""
        if not isinstance(user, TokenUser):
            return [each for each in self._broker.vhosts if user.may_enter(each)]
        names = tuple(self._broker.vhosts)
        if names == self._vhost_names:
            names = self._vhost_names  # all users remember the same ones
        self._vhost_names = names
        found = user.entered(names)
        if found is None:
            found = []
            for number, name in enumerate(names, 1):
                if user.may_enter(name):
                    found.append(name)
                if not number % VHOSTS_A_TURN:
                    await trio.lowlevel.checkpoint()
            user.remember_entered(names, found)
        return found

    async def _user_of(self, token: str) -> User:
        """Return the user of an OAuth 2 token; `LoginRefused` for a wrong one."""
        if self._tokens is None:
            raise LoginRefused("this broker takes no OAuth 2 tokens")
        return await self._tokens.user(token)

    async def change(self, request: ChangeBroker) -> Entry:
        """Make a change, and return the response once it is on disk, if the broker has one.

        `RequestError` if the user is gone, or the change is refused.
        """
        user = await self._changing_user(request)
        self._broker.work.quantum.begin()
        unfinished: list[Unfinished] = []
        try:
            answer = applied(request.change, Actor(self._broker, user, current_time(), unfinished))
        except RequestError:
            raise
        except Exception as error:  # noqa: BLE001 - it fails this request, and no other of the same client
            self._broker.events.fail("change failed", error, change=type(request.change).__name__)
            raise RequestError("failed", "this failed; the log of the broker has the reason") from None
        for each in unfinished:
            is_over = trio.Event()
            each.on_done = is_over.set
            if not each.is_done:
                await is_over.wait()
            each.check()
        if self._broker.storage is not None:
            await _kept(self._broker.storage.journal)
        return answer

    async def _changing_user(self, request: ChangeBroker) -> User:
        """Return the user that makes a change; `RequestError` if it is gone, or its token has expired."""
        if request.token is not None:
            try:
                return await self._user_of(request.token)
            except LoginRefused as refusal:
                raise RequestError("refused", str(refusal)) from None
        user = self._broker.users.get(request.user)
        if user is None:
            raise RequestError("no-user", f"there is no user {request.user!r}")
        return user

    def close(self, session: int, text: str, channel: int | None = None) -> None:
        """Close a client's connection with 320, or one of its channels with 406; `RequestError` if it is not open."""
        served = numbered(self._served, session)
        connection = served.other or served.connection
        if connection.vhost is None or connection.is_over:
            raise RequestError("not-open", f"session {session} has no open connection")
        if channel is not None and channel not in connection.channels:
            raise RequestError("no-channel", f"session {session} has no open channel {channel}")
        logger().info("closing", client=connection.name, channel=channel, reason=text, by="operator")
        self._broker.work.quantum.begin()
        if channel is None:
            connection.close(text, current_time())
        else:
            connection.end_channel(channel, PreconditionFailed(text), current_time())

    def objects(self, request: ListBrokerObjects) -> Iterator[Entry | None]:
        """Yield the entries of the chosen objects."""
        if request.page is not None and request.kind == "queues":
            return self._queues(request, request.page)
        chosen = Selection(self._broker, self._served, request.vhost, request.name, self._shovels)
        return KINDS[request.kind](chosen)

    def _queues(self, request: ListBrokerObjects, page: QueuePage) -> Iterator[Entry | None]:
        entry = brief_queue_entry if page.brief else queue_entry
        found = queue_page(Selection(self._broker, {}, request.vhost).vhosts, page)
        return (entry(*each) if isinstance(each, tuple) else each for each in found)

    def samples(self, request: SampleBroker) -> Iterator[Row | int | None]:
        """Yield the number of this sample, then the counts of each object that changed since an earlier one."""
        return self._samples.since(request.since)


def _cluster_name(broker: Broker) -> str | None:
    values = (each["value"] for each in broker.global_parameters if each["name"] == "cluster_name")
    return next((value for value in values if isinstance(value, str)), None)


async def _kept(journal: Journal) -> None:
    """Wait until all changes so far are on disk; `RequestError` if they cannot be written, which is tried again."""
    is_over = trio.Event()
    faults: list[str] = []

    def give_up(reason: str) -> None:
        faults.append(reason)
        is_over.set()

    journal.when_committed(is_over.set, given_up=give_up)
    await is_over.wait()
    if faults:
        raise RequestError("not-kept", f"the change is made, but not on disk: {faults[0]}")
