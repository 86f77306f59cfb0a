"""The broker as a whole: its virtual hosts, its users, and the settings and limits of all connections."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from amqproxy.amqp091.errors import PreconditionFailed
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.broker.access.permissions import Permission
from amqproxy.broker.access.quotas import UserQuotas
from amqproxy.broker.access.refused_logins import RefusedLogins
from amqproxy.broker.access.users import LoginRefused, User
from amqproxy.broker.arguments import check_short
from amqproxy.broker.clients import ClientChannel, ClientUnacked, ConnectedClient, NamedSession
from amqproxy.broker.consumer_timeout import ConsumerTimeout
from amqproxy.broker.events import EventDispatcher
from amqproxy.broker.exchanges.exchange_types import PLUGINS, types_with
from amqproxy.broker.exchanges.topic import TopicExchange
from amqproxy.broker.message import Message
from amqproxy.broker.message_counts import MessageCounts
from amqproxy.broker.paging import Paging
from amqproxy.broker.queues.queue_storage import QueueStorage
from amqproxy.broker.schedule import Schedule
from amqproxy.broker.server_properties import server_properties
from amqproxy.broker.unsent_bytes import MOST_WAITING, UnsentBytes
from amqproxy.broker.vhost import VirtualHost
from amqproxy.broker.work import Job, WorkQueue
from amqproxy.rabbitmq.profile import OLDEST, Profile
from amqproxy.tokens.token_claims import is_token

CONSUMER_TIMEOUT = 1800.0
DTX_TIMEOUT = 60
TICKING = 2
"""Operations that the tick of a connection counts as."""

HELD_SHARE = 0.5
"""Share of the memory limit that the broker itself must hold, with its initial memory, to set the memory alarm."""

CONNECTION_COST, CHANNEL_COST, QUEUE_COST, BINDING_COST = 24 * 1024, 4 * 1024, 4 * 1024, 1024
"""Estimated bytes of memory of each of these when empty."""

LOG_EXCHANGE = "amq.rabbitmq.log"

EVERYTHING = Permission(".*", ".*", ".*")


class Broker:
    """A broker: its virtual hosts, users and connections, and the limits for all of them.

    connection.tune offers `channel_max`, `frame_max` and `heartbeat` (seconds); `max_message_size` bounds one body.
    `consumer_timeout` is the time (seconds) for which a client may hold a message before its channel is closed,
    `dtx_timeout` the time (0: unlimited) to prepare a branch of a distributed transaction if the client sets none.
    `quotas` bound a user's objects that outlive connections, per virtual host. `memory_limit` and `disk_free_limit`
    (bytes) are compared with the arguments of `check_limits`. `events` reports all events; `paging` frees memory.
    `log_exchange` declares amq.rabbitmq.log. `profile` is the RabbitMQ version whose behaviour the broker has, with its
    message size and its SASL `mechanisms` unless others are given; `plugins` are RabbitMQ's plugins whose exchange
    types are available. `refused` holds the connections whose login was refused, until they are
    cut. `sessions` holds the named sessions by virtual host, user and name. `sooner` is called with a time to which
    `next_deadline` may have moved forward.
    """

    def __init__(
        self,
        version: str = "",
        *,
        node: str = "amqproxy@localhost",
        channel_max: int = 2047,
        frame_max: int = 131_072,
        heartbeat: int = 60,
        max_message_size: int | None = None,
        memory_limit: int | None = None,
        disk_free_limit: int | None = None,
        consumer_timeout: float | None = CONSUMER_TIMEOUT,
        dtx_timeout: int = DTX_TIMEOUT,
        quotas: UserQuotas = UserQuotas(),  # noqa: B008 - it is a value
        log_exchange: bool = False,
        mechanisms: Sequence[str] | None = None,
        plugins: Collection[str] = PLUGINS,
        profile: Profile = OLDEST,
    ) -> None:
        self.node = node
        self.user_of_token: Callable[[str], User] | None = None
        """Returns the user of an OAuth 2 token, or raises `LoginRefused`; None if clients cannot log in so."""
        self.profile = profile
        self.mechanisms = profile.mechanisms if mechanisms is None else tuple(mechanisms)
        self.exchange_types = types_with(plugins, profile)
        self.channel_max = channel_max
        self.frame_max = frame_max
        self.heartbeat = heartbeat
        self.max_message_size = profile.message_size if max_message_size is None else max_message_size
        self.memory_limit = memory_limit
        self.disk_free_limit = disk_free_limit
        self.dtx_timeout = dtx_timeout
        self.quotas = quotas
        self.events = EventDispatcher()
        self.work = WorkQueue()
        self.work.failed = lambda error: self.events.fail("unfinished work failed", error)
        self.storage: QueueStorage | None = None
        self.vhosts: dict[str, VirtualHost] = {}
        self._past_counts = MessageCounts()
        self._deleted: list[MessageCounts] = []
        """Counts of the virtual hosts under deletion, whose last messages are still counted."""
        self.users: dict[str, User] = {}
        self.connections: dict[ConnectedClient, None] = {}
        self.refused: RefusedLogins[ConnectedClient] = RefusedLogins(lambda each: each.cut())
        self.alarms: set[str] = set()
        self._ticks = 0
        self._deletions: dict[str, float] = {}
        """The virtual hosts that are being deleted, with the time when the deletion began."""
        self._is_check_held_memory = False
        self.waiting = UnsentBytes(MOST_WAITING if memory_limit is None else min(MOST_WAITING, memory_limit // 4))
        self._causes: dict[str, set[str]] = {}
        self.paging = Paging(
            memory_limit, self.work, lambda: self.vhosts.values(), self._paging_failed, self._all_unacked
        )
        self.parameters: list[dict[str, Any]] = []
        self.global_parameters: list[dict[str, Any]] = []
        self.sooner: Callable[[float], None] = lambda when: None
        self.timed_connections: Schedule[ConnectedClient] = Schedule(self._sooner)
        self.sessions: dict[tuple[str, Hashable, bytes], NamedSession] = {}
        """Named sessions by virtual host, `User.session_owner` and name."""
        self.consumer_timeout = consumer_timeout
        self._overdue = None if consumer_timeout is None else ConsumerTimeout(consumer_timeout)
        self.properties = server_properties(version, node, profile)
        self.add_vhost("/").describe("Default virtual host")
        guest = User.with_password("guest", "guest", ["administrator"])
        guest.permit("/", EVERYTHING)
        self.add_user(guest)
        if log_exchange:
            self.vhosts["/"].exchanges[LOG_EXCHANGE] = TopicExchange(LOG_EXCHANGE, durable=True, internal=True)

    @property
    def disk_counts(self) -> tuple[int, int]:
        """Numbers of messages that were read from the disk, and written to it, since the start."""
        storage = self.storage
        return (0, 0) if storage is None else (storage.messages_read, storage.journal.messages_written)

    def use_storage(self, storage: QueueStorage) -> None:
        """Store durable state in `storage`; to be called before anything is declared."""
        self.storage = storage
        for vhost in self.vhosts.values():
            vhost.storage = storage

    # --- virtual hosts

    def add_vhost(self, name: str) -> VirtualHost:
        """Return the virtual host of a name, created if missing; raise 406 for a name that no short string can hold."""
        vhost = self.vhosts.get(name)
        if vhost is None:
            check_short("the virtual host's name", name)
            while name in self._deletions:  # the pending deletion must not remove objects of the new virtual host
                self.work.go_on(self._deletions[name])
            vhost = self.vhosts[name] = VirtualHost(
                name, self.events, self._sooner, self.work, self.quotas, self.exchange_types, self.profile
            )
            vhost.storage = self.storage
            self.events.report("vhost.created", name, vhost)
        return vhost

    @property
    def past_counts(self) -> MessageCounts:
        """Counts of all virtual hosts that are deleted, also of those whose contents are still there.

        With them, the counts of the whole broker never decrease.
        """
        found = MessageCounts()
        for each in (self._past_counts, *self._deleted):
            found.add(each)
        return found

    @property
    def counts(self) -> MessageCounts:
        """Counts of all virtual hosts, past and present."""
        found = self.past_counts
        for each in self.vhosts.values():
            found.add(each.counts)
        return found

    def delete_vhost(self, name: str, now: float) -> bool:
        """Delete a virtual host with its contents and close the connections to it; return whether it existed."""
        vhost = self.vhosts.pop(name, None)
        if vhost is None:
            return False
        self._deletions[name] = now
        self._deleted.append(vhost.counts)
        self.work.do(self._deleting_vhost(vhost, now), now)
        return True

    def _deleting_vhost(self, vhost: VirtualHost, now: float) -> Job:
        """Close the connections to a removed virtual host, and then delete its contents."""
        name, quantum = vhost.name, self.work.quantum
        connections = [each for each in self.connections if each.vhost is vhost]
        now = yield from self._doing(connections, lambda each, now: each.close(f"vhost '{name}' is deleted", now), now)
        now = yield from self._ending_sessions(lambda vhost, owner: vhost == name, now)
        for _ in vhost.clearing():
            if quantum.left <= 0 and quantum.is_over():
                now = yield
        while vhost.is_unbinding:
            now = yield
        for user in list(self.users.values()):
            user.permit(name, None)
            for place in [place for place in user.topic_permissions if place[0] == name]:
                user.permit_topic(*place, None)
            if quantum.spend(1):
                now = yield
        for each in [each for each in self.parameters if each["vhost"] == name]:
            self.clear_parameter(name, each["component"], each["name"])
        self._past_counts.add(vhost.counts)
        self._deleted.remove(vhost.counts)
        self.events.report("vhost.deleted", name, vhost)
        del self._deletions[name]

    # --- users

    def add_user(self, user: User) -> None:
        """Add a user, replacing a user with the same name, which must have no connections."""
        self.users[user.name] = user
        user.events = self.events
        user.profile = self.profile
        self.events.report("user.created", "", user)

    def put_user(self, name: str, password_hash: str, algorithm: str, tags: Iterable[str]) -> bool:
        """Create a user, or change it in place, since its connections hold it; return whether it is new."""
        old = self.users.get(name)
        if old is None:
            self.add_user(User(name, password_hash, algorithm, tags))
        else:
            old.change_hash(password_hash, algorithm)
            old.set_tags(tags)
        return old is None

    def limits_of(self, user: User) -> Mapping[str, int]:
        """Return the limits of a user, which a token's user has by its name, as in RabbitMQ."""
        named = user if user.is_internal else self.users.get(user.name)
        return user.limits if named is None else named.limits

    def channels_of(self, user: User) -> int:
        """Return the number of channels of the clients of a user's name, of whom some may have logged in by token."""
        if self.user_of_token is None:
            return user.channels
        return sum(len(each.channels) for each in self.connections if each.is_named(user.name))

    def delete_user(self, name: str, now: float) -> bool:
        """Delete a user and close its connections; return whether it existed."""
        user = self.users.pop(name, None)
        if user is None:
            return False
        connections = [each for each in self.connections if each.is_of(user)]
        self._for_each(connections, lambda each, now: each.close(f"user '{name}' is deleted", now), now)
        self.work.do(self._ending_sessions(lambda vhost, owner: owner == user.session_owner, now), now)
        self.events.report("user.deleted", "", user)
        return True

    def _ending_sessions(self, ends: Callable[[str, Hashable], bool], now: float) -> Generator[None, float, float]:
        """End the named sessions of a virtual host or an owner, including detached ones."""
        for (vhost, owner, _), session in list(self.sessions.items()):
            if ends(vhost, owner):
                with self.events.contained("a session's end failed", vhost=vhost, user=session.user.name):
                    session.take_over(now)
            if self.work.quantum.spend(TICKING):
                now = yield
        return now

    def log_in(self, name: str, password: str, *, is_loopback: bool) -> User:
        """Return the user; raise `LoginRefused` if the password is wrong or the origin is not allowed.

        With `user_of_token`, a password that is an OAuth 2 token names the user.
        """
        if self.user_of_token is None or not is_token(password):
            return self.log_in_by_password(name, password, is_loopback=is_loopback)
        user = self.user_of_token(password)
        user.check_origin(is_loopback=is_loopback)
        return user

    def log_in_by_password(self, name: str, password: str, *, is_loopback: bool) -> User:
        """Return one of the broker's own users, like `log_in`."""
        if not password:
            raise LoginRefused(f"user '{name}' attempted to log in with a blank password, which is prohibited")
        user = self.users.get(name)
        if user is None or not user.accepts(password):
            raise LoginRefused(f"user '{name}' - invalid credentials")
        user.check_origin(is_loopback=is_loopback)
        return user

    def log_in_by_certificate(self, name: str, *, is_loopback: bool) -> User:
        """Return the user that a TLS client's certificate names; raise `LoginRefused` for "" or an unknown user."""
        if not name:
            raise LoginRefused("connection peer presented no TLS (x.509) certificate")
        user = self.users.get(name)
        if user is None:
            raise LoginRefused(f"user '{name}' - invalid credentials")
        user.check_origin(is_loopback=is_loopback)
        return user

    # --- parameters, stored here and interpreted elsewhere

    def set_parameter(self, vhost: str, component: str, name: str, value: Any) -> None:
        """Set a parameter of a virtual host."""
        self.clear_parameter(vhost, component, name)
        self.parameters.append({"vhost": vhost, "component": component, "name": name, "value": value})
        self.events.report("parameter.set", vhost, name, component=component, value=value)

    def clear_parameter(self, vhost: str, component: str, name: str) -> bool:
        """Remove a parameter of a virtual host; return whether it existed."""
        key = {"vhost": vhost, "component": component, "name": name}
        others = [each for each in self.parameters if {**each, **key} != each]
        is_there = len(others) < len(self.parameters)
        self.parameters = others
        if is_there:
            self.events.report("parameter.cleared", vhost, name, component=component)
        return is_there

    def set_global_parameter(self, name: str, value: Any) -> None:
        """Set a parameter of all virtual hosts."""
        self.clear_global_parameter(name)
        self.global_parameters.append({"name": name, "value": value})
        self.events.report("parameter.set", "", name, value=value)

    def clear_global_parameter(self, name: str) -> bool:
        """Remove a parameter of all virtual hosts; return whether it existed."""
        others = [each for each in self.global_parameters if each["name"] != name]
        is_there = len(others) < len(self.global_parameters)
        self.global_parameters = others
        if is_there:
            self.events.report("parameter.cleared", "", name)
        return is_there

    # --- connections

    def close_connections(self, reason: str, now: float, vhost: str | None = None) -> int:
        """Close all connections, or those to a virtual host, with 320 and a reason; return their number."""
        every = self.connections
        connections = [each for each in every if vhost is None or (each.vhost is not None and each.vhost.name == vhost)]
        self._for_each(connections, lambda each, now: each.close(reason, now), now)
        return len(connections)

    def _for_each(
        self, connections: list[ConnectedClient], act: Callable[[ConnectedClient, float], None], now: float
    ) -> None:
        """Apply `act` to each of these connections that is still open, in steps."""
        self.work.do(self._doing(connections, act, now), now)

    def _doing(
        self, connections: list[ConnectedClient], act: Callable[[ConnectedClient, float], None], now: float
    ) -> Generator[None, float, float]:
        quantum = self.work.quantum
        for connection in connections:
            if not connection.is_over:
                self._act(connection, act, now)
            if quantum.spend(TICKING):
                now = yield
        return now

    def _act(self, connection: ConnectedClient, act: Callable[[ConnectedClient, float], None], now: float) -> None:
        """Apply `act` to a connection; if that fails, close this connection with 541 without affecting others."""
        try:
            act(connection, now)
        except Exception as error:  # noqa: BLE001
            self.events.fail("connection failed", error, client=connection.name)
            connection.give_up(now)

    @property
    def bytes_in_memory(self) -> int:
        """Approximate bytes of memory of everything that the broker holds."""
        return sum(self._costs())

    def _costs(self) -> Iterator[int]:
        """Yield the approximate bytes of each part of the broker; parts may come and go between two steps."""
        yield self.waiting.count
        if self.storage is not None:
            yield self.storage.journal.pending
        for vhost in list(self.vhosts.values()):
            yield vhost.delayed.bytes_in_memory + vhost.uncommitted_bytes
            for queue in list(vhost.queues.values()):
                yield QUEUE_COST + queue.bytes_in_memory
            for exchange in list(vhost.exchanges.values()):
                yield QUEUE_COST + BINDING_COST * len(exchange.bindings)
        for connection in list(self.connections):
            yield CONNECTION_COST + connection.bytes_arriving
            for channel in list(connection.channels.values()):
                yield CHANNEL_COST + channel.deliveries.bytes_in_memory
        for session in list(self.sessions.values()):
            yield session.bytes_kept

    def check_limits(
        self, now: float, *, memory: int | None = None, disk_free: int | None = None, base: int | None = None
    ) -> None:
        """Compare the bytes of memory in use and of free disk space with the limits, and set or clear the alarms.

        Memory in use may be free memory retained by the allocators: with `base`, the bytes in use before the broker
        held anything, the memory alarm is set only if those and what the broker holds reach `HELD_SHARE` of the limit.
        """
        if memory is not None and self.memory_limit is not None:
            is_short = memory > self.memory_limit
            if not is_short or base is None:
                self.set_alarm("memory", is_short, now)
            elif not self._is_check_held_memory:
                self._is_check_held_memory = True
                self.work.do(self._check_held_memory(HELD_SHARE * self.memory_limit - base, now), now)
        if memory is not None:
            self.paging.measured(memory, now)
        if disk_free is not None and self.disk_free_limit is not None:
            self.set_alarm("disk", disk_free < self.disk_free_limit, now)

    def _check_held_memory(self, most: float, now: float) -> Job:
        """Add up, in steps, the memory that the broker holds, and set or clear the memory alarm."""
        total, quantum = 0, self.work.quantum
        try:
            for cost in self._costs():
                total += cost
                if quantum.spend(1):
                    now = yield
        finally:
            self._is_check_held_memory = False
        self.set_alarm("memory", total >= most, now)

    def set_alarm(self, resource: str, is_on: bool, now: float, cause: str = "") -> None:
        """Set or clear the alarm for a `resource` ("memory" or "disk"), during which publishers are blocked.

        An alarm with several causes ends when all of them are cleared.
        """
        causes = self._causes.setdefault(resource, set())
        if is_on:
            causes.add(cause)
        else:
            causes.discard(cause)
        is_on = bool(causes)
        if is_on == (resource in self.alarms):
            return
        if is_on:
            self.alarms.add(resource)
        else:
            self.alarms.remove(resource)
        self.events.report("alarm.set" if is_on else "alarm.cleared", "", resource)
        self._for_each(list(self.connections), lambda each, now: each.alarms_changed(now), now)

    def _all_unacked(self) -> Iterator[ClientUnacked]:
        return (channel.deliveries.unacked for channel in self._channels())

    def _channels(self) -> Iterator[ClientChannel]:
        """Iterate over all channels; channels may come and go between two steps."""
        return (channel for connection in list(self.connections) for channel in list(connection.channels.values()))

    def _paging_failed(self, has_failed: bool, now: float) -> None:
        self.set_alarm("disk", has_failed, now, cause="paging")

    # --- the log

    def log(self, level: str, text: str, now: float) -> None:
        """Publish a log line to amq.rabbitmq.log, if it exists, with the level as routing key."""
        vhost = self.vhosts.get("/")
        exchange = vhost.exchanges.get(LOG_EXCHANGE) if vhost else None
        if vhost is not None and exchange is not None:
            properties = Properties(
                content_type="text/plain", timestamp=int(now), headers=Table({"level": level, "node": self.node})
            )
            vhost.publish(exchange, Message.made(LOG_EXCHANGE, level, properties, text.encode()), now)

    # --- time

    def _sooner(self, when: float) -> None:
        self.sooner(when)

    def next_deadline(self) -> float:
        """Return the time of the next due work for `tick`."""
        if self.work or self.paging.is_due:
            return 0.0
        return min(self.timed_connections.next, *(vhost.next_deadline for vhost in self.vhosts.values()))

    def tick(self, now: float) -> None:
        """Run all due timers: expire messages and queues, send heartbeats, cut silent clients."""
        contained, quantum = self.events.contained, self.work.quantum
        while not quantum.is_over() and (connection := self.timed_connections.take_first(now)) is not None:
            quantum.left -= TICKING
            self._act(connection, lambda each, now: each.tick(now), now)
        if self._overdue is not None and self._overdue.is_due(now):
            self.work.do(self._ending_overdue(self._overdue, now), now)
        vhosts = list(self.vhosts.values())
        self._ticks += 1
        first = self._ticks % len(vhosts) if vhosts else 0  # rotate, so that a busy virtual host does not starve others
        for vhost in vhosts[first:] + vhosts[:first]:
            with contained("a virtual host's tick failed", vhost=vhost.name):
                vhost.tick(now)
        if self.work:
            self.work.go_on(now)
        if self.paging.is_due:
            with contained("paging failed"):
                self.paging.work(now)

    def _ending_overdue(self, overdue: ConsumerTimeout, now: float) -> Job:
        quantum = self.work.quantum
        text = (
            "delivery acknowledgement on channel {} timed out. Timeout value used: {:.0f} ms. This timeout value can "
        )
        text += "be configured, see consumers doc guide to learn more"
        for channel, is_overdue in overdue.find(self._channels(), now):
            if is_overdue:
                error = PreconditionFailed(text.format(channel.number, overdue.timeout * 1000))
                number = channel.number
                self._act(channel.connection, lambda each, now: each.end_channel(number, error, now), now)  # noqa: B023
                quantum.left -= TICKING
            if quantum.spend(1):
                now = yield
