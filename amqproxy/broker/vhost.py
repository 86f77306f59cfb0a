"""One virtual host: its exchanges, queues, bindings and policies.

All of this is one class because declaring, binding, deleting and policies change the same tables.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from amqproxy.amqp091.errors import (
    AccessRefused,
    CommandInvalid,
    NotFound,
    PreconditionFailed,
    ResourceLocked,
)
from amqproxy.amqp091.wire import Field, Table
from amqproxy.broker.access.limits import VHOST_LIMITS, check_limits
from amqproxy.broker.access.quotas import UserQuotas, VhostQuotas
from amqproxy.broker.arguments import check_equivalent, check_same, check_short, in_order
from amqproxy.broker.dead_letter_publisher import DeadLetterPublisher
from amqproxy.broker.events import EventDispatcher
from amqproxy.broker.exchanges.delayed import released
from amqproxy.broker.exchanges.delayed_messages import DelayedMessages
from amqproxy.broker.exchanges.exchange import Binding, Exchange
from amqproxy.broker.exchanges.exchange_types import EXCHANGE_TYPES
from amqproxy.broker.message import Message
from amqproxy.broker.message_counts import MessageCounts
from amqproxy.broker.queues import queue_types
from amqproxy.broker.queues.at_least_once import DeadLetter
from amqproxy.broker.queues.policies import QUEUE_KINDS, EffectivePolicy, Policy, effect, effective_arguments
from amqproxy.broker.queues.policy_table import PolicyTable
from amqproxy.broker.queues.queue import ExclusiveOwner, LockedEntries, Queue
from amqproxy.broker.queues.queue_arguments import QueueSettings, check_declare, queue_type
from amqproxy.broker.queues.queue_arguments import check_same as check_same_queue
from amqproxy.broker.queues.queue_storage import QueueStorage
from amqproxy.broker.router import Router
from amqproxy.broker.schedule import Schedule
from amqproxy.broker.storage.packing import DAMAGED
from amqproxy.broker.work import Job, WorkQueue
from amqproxy.rabbitmq.profile import OLDEST, Profile

UNBINDING = 4
"""Operations that the removal of a binding counts as."""

REMOVING = 16
"""Operations that the removal of a queue or an exchange counts as."""

CANCELLING = 4
"""Operations that cancelling a consumer of a deleted queue counts as."""

RELEASING = 8
"""Operations that the release of a delayed message counts as."""

PREDECLARED = {
    "": "direct",
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.headers": "headers",
    "amq.match": "headers",
    "amq.rabbitmq.trace": "topic",
    "amq.topic": "topic",
}


MOST_COMPARED = 16
"""Changed policies up to which each queue is compared with them; with more, its policy is looked up at once."""


class ReplyTarget(Protocol):
    """A channel with a direct reply-to consumer."""

    def deliver_reply(self, name: str, message: Message, /) -> None:
        """Deliver a reply that was published to this name."""


class Timed(Protocol):
    """An object with a deadline.

    Examples are a branch of a distributed transaction that waits for its outcome, a detached session that waits for its
    client, and a browser that waits for messages.
    """

    def tick(self, now: float, /) -> None:
        """Handle the deadline, which has passed."""


class Branch(Timed, Protocol):
    """A branch of a distributed transaction."""

    @property
    def is_prepared(self) -> bool: ...

    def discard(self) -> None:
        """Discard the branch because its virtual host is deleted."""


class InterruptedMessage(Timed, Protocol):
    """A partially received message."""

    @property
    def size(self) -> int:
        """Bytes of it received so far."""


class QueueUser(Protocol):
    """An object with a pending operation on a queue, which must not affect a later queue of the same name."""

    def queue_deleted(self, queue: Queue, /) -> None: ...


class VirtualHost:
    """The exchanges, queues and other objects of one name space; errors have RabbitMQ's codes and texts.

    `sooner` is called when `next_deadline` may have become earlier. `work` takes operations that exceed a turn.
    `exchange_types` are the types that exchanges can be declared with, by name.
    `branches` are the distributed transactions' branches by name; `quotas` bound a user's objects.
    """

    def __init__(
        self,
        name: str,
        events: EventDispatcher | None = None,
        sooner: Callable[[float], None] = lambda when: None,
        work: WorkQueue | None = None,
        quotas: UserQuotas = UserQuotas(),  # noqa: B008 - it is a value
        exchange_types: Mapping[str, type[Exchange]] = EXCHANGE_TYPES,
        profile: Profile = OLDEST,
    ) -> None:
        self.name = name
        self.profile = profile
        self.exchange_types = exchange_types
        self.quotas = VhostQuotas(quotas)
        self._unbindings = 0
        self.work = WorkQueue() if work is None else work
        self.events = events or EventDispatcher()
        self.description = ""
        self.tags: list[str] = []
        self.metadata: dict[str, Any] = {}
        """Metadata of definitions, such as the default queue type; the rest has no effect."""
        self.limits: dict[str, int] = {}
        self.is_traced = False
        self.counts = MessageCounts()
        self.generation = 0
        self.reply_consumers: dict[str, ReplyTarget] = {}
        self.policies = PolicyTable()
        self.operator_policies = PolicyTable()
        self._changed_policies: list[Policy] = []
        """Policies that were set, replaced or removed since queues were last compared with them."""
        self._is_applying = False
        self.queues: dict[str, Queue] = {}
        self.exchanges: dict[str, Exchange] = {
            exchange: exchange_types[type_](exchange, durable=True, internal=exchange == "amq.rabbitmq.trace")
            for exchange, type_ in PREDECLARED.items()
        }
        self.deleted: Callable[[Queue], None] = lambda queue: None
        self._bound: dict[Queue | Exchange, dict[tuple[Exchange, Binding], None]] = {}
        self.timed_queues: Schedule[Queue] = Schedule(sooner)
        self.branches: dict[bytes, Branch] = {}
        self.uncommitted_bytes = 0
        """Approximate bytes of memory of transactions and partially received messages."""
        self.queue_users: dict[Queue, dict[QueueUser, None]] = {}
        self.locked: dict[str, LockedEntries] = {}
        """Entries locked by transactions, by queue name; read by `recovered` when it starts the queues."""
        self.timed: Schedule[Timed] = Schedule(sooner)
        self.interrupted: dict[tuple[str, str], InterruptedMessage] = {}
        """Partially received messages, which another session may complete, by user and resume-id."""
        self.detached: dict[Timed, None] = {}
        """Detached sessions, whose clients may return."""
        self.delayed = DelayedMessages(name, sooner)
        self.router = Router(self.exchanges, self.queues, self.delayed, self.work.quantum)
        self._dead_letters = DeadLetterPublisher(name, self.exchanges, self.router, self.events, self.work, profile)
        self._storage: QueueStorage | None = None

    @property
    def storage(self) -> QueueStorage | None:
        """The storage of durable state; `None` without persistence."""
        return self._storage

    @storage.setter
    def storage(self, storage: QueueStorage | None) -> None:
        self._storage = self.delayed.storage = storage

    def describe(self, description: str, tags: Iterable[str] = ()) -> None:
        """Set the description of the virtual host."""
        self.description, self.tags = description, list(tags)
        self.events.report("vhost.metadata.set", self.name, self)

    def set_limits(self, limits: Mapping[str, int]) -> None:
        """Replace the limits of the virtual host; raise `ValueError` if they are invalid."""
        check_limits(limits, VHOST_LIMITS)
        self.limits = dict(limits)
        self.events.report("vhost.limits.set", self.name, self)

    def trace(self, is_on: bool) -> None:
        """Turn the firehose on or off."""
        self.is_traced = is_on
        self.events.report("vhost.trace.set", self.name, self)

    def recovered(self, now: float) -> None:
        """Start delayed messages and queues once everything stored before the restart is restored."""
        self.delayed.recover(self.exchanges.values())
        for queue in list(self.queues.values()):
            queue.recovered(now, self.locked.get(queue.name))

    def clearing(self) -> Iterator[None]:
        """Delete the contents of the virtual host, one object per step."""
        for branch in list(self.branches.values()):
            self.work.quantum.left -= 1
            branch.discard()
            yield
        for message in list(self.interrupted.values()):
            message.tick(0.0)
        while self.queues:
            queues = list(self.queues.values())
            while queues:
                self.work.quantum.left -= REMOVING
                self.remove_queue(queues.pop())
                yield
        for exchange in [each for name, each in self.exchanges.items() if name not in PREDECLARED]:
            if not exchange.is_deleted:
                self.work.quantum.left -= REMOVING
                self._remove_exchange(exchange)
                yield

    # --- finding

    def exchange(self, name: str) -> Exchange:
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise NotFound(f"no exchange '{name}' in vhost '{self.name}'")
        return exchange

    def queue_not_found(self, name: str) -> NotFound:
        """Return the 404 error for a missing queue."""
        return NotFound(f"no queue '{name}' in vhost '{self.name}'")

    def queue(self, name: str, connection: ExclusiveOwner | None = None) -> Queue:
        """Return a queue; raise 404 if it is missing, 405 if `connection` may not use it."""
        queue = self.queues.get(name)
        if queue is None:
            raise self.queue_not_found(name)
        if queue.exclusive_to is not None and queue.exclusive_to is not connection:
            raise _locked(queue)
        if queue.locked_by is not None and queue.locked_by is not connection:
            raise _locked(queue)
        return queue

    # --- exchanges

    def declare_exchange(
        self, name: str, type_: str, *, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> Exchange:
        self.check_exchange_type(type_)
        exchange = self.exchanges.get(name)
        if exchange is not None:
            what = f"exchange '{name}'"
            received = {"type": type_, "durable": durable, "auto_delete": auto_delete, "internal": internal}
            check_same(what, self.name, {key: (value, getattr(exchange, key)) for key, value in received.items()})
            check_equivalent(what, self.name, ("alternate-exchange",), arguments, exchange.arguments)
            return exchange
        self._check_name("exchange", name)
        check_short("the exchange's name", name)
        self.exchange_types[type_].check(f"exchange '{name}' in vhost '{self.name}'", arguments)
        exchange = self.exchange_types[type_](
            name, durable=durable, auto_delete=auto_delete, internal=internal, arguments=arguments
        )
        self.exchanges[name] = exchange
        exchange.policy, *names = self._effect("exchanges", name)
        exchange.policy_names = (names[0], names[1])
        self._forget_routes()
        if self.events.is_recorded:
            self.events.report("exchange.created", self.name, exchange)
        return exchange

    def check_exchange_type(self, type_: str) -> None:
        """Raise 503, or from RabbitMQ 4.0 on 406, for an unknown exchange type."""
        if type_ not in self.exchange_types:
            error = CommandInvalid if self.profile.exchange_type_fault == "connection 503" else PreconditionFailed
            raise error(f"{'unknown' if type_ else 'invalid'} exchange type '{type_}'")

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete an exchange, if it exists; raise 406 with `if_unused` if it has bindings."""
        exchange = self.exchanges.get(name)
        if exchange is None:
            return
        if if_unused and exchange.bindings:
            raise PreconditionFailed(f"exchange '{name}' in vhost '{self.name}' in use")
        self._remove_exchange(exchange)

    def _remove_exchange(self, exchange: Exchange) -> None:
        del self.exchanges[exchange.name]
        exchange.is_deleted = True
        self._forget_routes()
        self._unbind_later(self._dissolving(exchange))

    def _dissolving(self, exchange: Exchange) -> Job:
        """Remove the bindings from a deleted exchange, and then the bindings to it."""
        yield from self._unbinding((exchange, binding) for binding in list(exchange.bindings.values()))
        self.work.free(self.delayed.drop(exchange))
        if self.events.is_recorded:
            self.events.report("exchange.deleted", self.name, exchange)
        yield from self._unbinding_from(exchange)

    # --- queues

    def new_queue_name(self) -> str:
        """Return a generated name for a queue that is declared without one."""
        return "amq.gen-" + secrets.token_urlsafe(16)

    def check_queue_name(self, name: str) -> None:
        """Raise 403 for a reserved name, even if a queue has it."""
        self._check_name("queue", name)

    def check_queue_limit(self, name: str) -> None:
        """Raise 406 if the virtual host has reached its queue limit."""
        limit = self.limits.get("max-queues", -1)
        if 0 <= limit <= len(self.queues):
            raise PreconditionFailed(
                f"cannot declare queue '{name}': queue limit in vhost '{self.name}' ({limit}) is reached"
            )

    def with_default_type(self, arguments: Table, *, durable: bool, exclusive: bool, auto_delete: bool) -> Table:
        """Return the arguments of a client's declare, with the default queue type if they name none."""
        usual = self.metadata.get("default_queue_type")
        if usual not in queue_types.QUEUE_TYPES or "x-queue-type" in arguments:
            return arguments
        if not durable or exclusive or auto_delete:
            return arguments
        return Table([*arguments.fields, Field("x-queue-type", "S", usual)])

    def declare_queue(
        self,
        name: str,
        connection: ExclusiveOwner | None,
        *,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        arguments: Table,
        now: float,
    ) -> Queue:
        existing = self.queues.get(name)
        if existing is not None:
            if existing.exclusive_to is not (connection if exclusive else None) or existing.locked_by is not None:
                raise _locked(existing)
            flags = {"durable": (durable, existing.durable), "auto_delete": (auto_delete, existing.auto_delete)}
            check_same(f"queue '{name}'", self.name, flags)
            check_same_queue(name, self.name, existing.type, arguments, existing.arguments, self.profile)
            existing.touch(now)
            return existing
        check_short("the queue's name", name)
        is_named = bool(name) and not name.startswith("amq.")
        name = name or self.new_queue_name()
        check_declare(
            f"queue '{name}' in vhost '{self.name}'",
            arguments,
            durable=durable,
            exclusive=exclusive,
            auto_delete=auto_delete,
            is_named=is_named,
            profile=self.profile,
        )
        if self.profile.shows_queue_type and "x-queue-type" not in arguments:
            arguments = Table([*arguments.fields, Field("x-queue-type", "S", "classic")])
        queue = queue_types.QUEUE_TYPES[queue_type(arguments)](
            name,
            self,
            durable=durable,
            auto_delete=auto_delete,
            exclusive_to=connection if exclusive else None,
            arguments=arguments,
            now=now,
            storage=self.storage if durable and not exclusive else None,
            effect=self._effect(QUEUE_KINDS[queue_type(arguments)], name),
        )
        self.queues[name] = queue
        self._forget_routes()
        if self.events.is_recorded:
            self.events.report("queue.created", self.name, queue)
        return queue

    def delete_queue(
        self, name: str, connection: ExclusiveOwner | None, *, if_unused: bool = False, if_empty: bool = False
    ) -> int:
        """Delete a queue, if it exists, and return the number of messages that were ready in it."""
        if name not in self.queues:
            return 0
        queue = self.queue(name, connection)
        queue.check_delete(if_unused=if_unused, if_empty=if_empty)
        return self.remove_queue(queue)

    def remove_queue(self, queue: Queue) -> int:
        """Remove a queue with its bindings and consumers, and return the number of messages that were ready in it."""
        if queue.is_deleted:
            return 0
        queue.is_deleted = True
        self.events.churn.queue_deleted += 1
        count = queue.message_count
        del self.queues[queue.name]
        if queue.exclusive_to is not None:
            queue.exclusive_to.exclusive_queues.pop(queue, None)
        self._unbind_later(self._unbinding_from(queue))
        self._forget_routes()
        if queue.consumers:
            self._unbind_later(self._cancelling(queue))
        self.timed_queues.drop(queue)
        queue.discard()
        self.deleted(queue)
        for user in self.queue_users.pop(queue, ()):
            user.queue_deleted(queue)
        if self.events.is_recorded:
            self.events.report("queue.deleted", self.name, queue)
        return count

    def _cancelling(self, queue: Queue) -> Job:
        """Cancel the consumers of a deleted queue, except those that end meanwhile."""
        quantum = self.work.quantum
        consumers = list(reversed(queue.consumers))
        while consumers:
            consumer = consumers.pop()
            if queue.consumers.pop(consumer, self) is self:
                continue
            with self.events.contained("a consumer was not cancelled", vhost=self.name, queue=queue.name):
                consumer.deliveries.queue_deleted(consumer)
            if quantum.spend(CANCELLING):
                yield

    # --- notifications from queues

    def dead_letter(
        self, queue: Queue, message: Message, reason: str, now: float, letter: DeadLetter | None = None
    ) -> None:
        self._dead_letters.publish(queue, message, reason, now, letter)

    def became_unused(self, queue: Queue) -> None:
        self.remove_queue(queue)

    def look_at(self, queue: Queue, when: float) -> None:
        self.timed_queues.set(queue, when)

    def failed(self, queue: Queue, event: str, failure: Exception, **fields: object) -> None:
        self.events.fail(event, failure, vhost=self.name, queue=queue.name, **fields)

    @property
    def next_deadline(self) -> float:
        """The time of the next due work for `tick`."""
        return min(self.timed_queues.next, self.timed.next, self.delayed.next)

    def tick(self, now: float) -> None:
        """Run all due timers: expire messages and queues, and release delayed messages.

        The kinds alternate, so that many due timers of one kind do not delay the others for several turns.
        """
        quantum = self.work.quantum
        is_due = True
        while is_due:
            is_due = False
            for act in (self._release_one, self._tick_timed, self._tick_queue):
                if quantum.is_over():
                    return
                is_due |= act(now)

    def _tick_timed(self, now: float) -> bool:
        """Run the first due object of `timed`; return whether there was one."""
        timed = self.timed.take_first(now)
        if timed is None:
            return False
        self.work.quantum.left -= 1
        with self.events.contained("what is timed failed", vhost=self.name):
            timed.tick(now)
        return True

    def _tick_queue(self, now: float) -> bool:
        """Run the first due queue timer; return whether there was one."""
        queue = self.timed_queues.take_first(now)
        if queue is None:
            return False
        self.work.quantum.left -= 1
        with self.events.contained("a queue's tick failed", vhost=self.name, queue=queue.name):
            queue.tick(now)
        return True

    # --- bindings

    def bind(self, source: Exchange, destination: Queue | Exchange, routing_key: str, arguments: Table) -> None:
        """Add a binding, unless it exists."""
        check_short("the routing key", routing_key)
        binding = Binding(destination, routing_key, in_order(arguments))
        if source.bind(binding):
            self._bound.setdefault(destination, {})[source, binding] = None
            self._forget_routes()
            if self.events.is_recorded:
                self.events.report("binding.created", self.name, binding, source=source)

    def unbind(
        self,
        source: Exchange,
        destination: Queue | Exchange,
        routing_key: str,
        arguments: Table,
        connection: ExclusiveOwner | None = None,
    ) -> None:
        """Remove a binding, if it exists; raise 405 if `connection` may not use the bound queue."""
        binding = Binding(destination, routing_key, in_order(arguments))
        if not source.has(binding):
            return
        if isinstance(destination, Queue):
            self.queue(destination.name, connection)
        self._unbind(source, binding)
        self._delete_if_unused(source)

    def bindings_to(self, destination: Queue | Exchange) -> list[tuple[Exchange, Binding]]:
        """Return the bindings to a queue or exchange with their source exchanges."""
        return list(self._bound.get(destination, ()))

    def _unbind(self, source: Exchange, binding: Binding) -> bool:
        if not source.unbind(binding):
            return False
        bound = self._bound[binding.destination]
        del bound[source, binding]
        if not bound:
            del self._bound[binding.destination]
        self._forget_routes()
        if self.events.is_recorded:
            self.events.report("binding.deleted", self.name, binding, source=source)
        return True

    def _unbind_later(self, job: Job) -> None:
        """Remove many bindings or consumers of a deleted object, in steps; it receives nothing meanwhile."""
        self._unbindings += 1
        self.work.do(self._counted(job), 0.0)

    def _counted(self, job: Job) -> Job:
        try:
            yield from job
        finally:
            self._unbindings -= 1

    @property
    def is_unbinding(self) -> bool:
        """Whether bindings or consumers of deleted objects are still being removed."""
        return self._unbindings > 0

    def _unbinding_from(self, destination: Queue | Exchange) -> Job:
        bindings = self.bindings_to(destination)
        sources = dict.fromkeys(source for source, _ in bindings)
        yield from self._unbinding(bindings)
        for source in sources:
            self._delete_if_unused(source)

    def _unbinding(self, bindings: Iterable[tuple[Exchange, Binding]]) -> Job:
        quantum = self.work.quantum
        for source, binding in bindings:
            self._unbind(source, binding)
            if quantum.spend(UNBINDING):
                yield

    def _delete_if_unused(self, exchange: Exchange) -> None:
        if exchange.auto_delete and not exchange.bindings and self.exchanges.get(exchange.name) is exchange:
            self._remove_exchange(exchange)

    # --- routing

    def publish(self, exchange: Exchange, message: Message, now: float) -> None:
        """Publish a message that the broker itself produces, without a permission check or a confirm."""
        for queue in self.router.route(exchange, message, now).queues:
            queue.publish(message, now)

    def _forget_routes(self) -> None:
        self.generation += 1
        self.router.forget()

    # --- delayed messages

    def _release_one(self, now: float) -> bool:
        """Publish the first delayed message if it is due; return whether it was."""
        if self.delayed.next > now:
            return False
        self.work.quantum.left -= RELEASING
        with self.events.contained("delayed message lost", vhost=self.name):
            exchange, message = self.delayed.pop_due(now)
            if message is not DAMAGED:
                self.publish(exchange, released(message), now)
        return True

    # --- policies

    def set_policy(self, policy: Policy, now: float, *, is_operator: bool = False) -> None:
        """Set a policy, replacing one of the same name, and apply it to all matching queues and exchanges."""
        (self.operator_policies if is_operator else self.policies).put(policy)
        self._apply_change(policy, now)
        if self.events.is_recorded:
            self.events.report("policy.set", self.name, policy, is_operator=is_operator)

    def clear_policy(self, name: str, now: float, *, is_operator: bool = False) -> bool:
        """Remove a policy and apply the remaining ones; return whether it existed."""
        found = (self.operator_policies if is_operator else self.policies).take(name)
        if found is None:
            return False
        self._apply_change(found, now)
        if self.events.is_recorded:
            self.events.report("policy.cleared", self.name, found, is_operator=is_operator)
        return True

    def _effect(self, kind: str, name: str) -> EffectivePolicy:
        return effect(self.policies.highest(kind, name), self.operator_policies.highest(kind, name))

    def _apply_change(self, policy: Policy, now: float) -> None:
        """Apply the policies anew where this one applies or has applied; many changes are applied together."""
        self._changed_policies.append(policy)
        if not self._is_applying:
            self.work.do(self._applying_policies(now), now)

    def _applying_policies(self, now: float) -> Job:
        quantum = self.work.quantum
        self._is_applying = True
        try:
            while self._changed_policies:
                changed, self._changed_policies = self._changed_policies, []
                cost = 1 + min(len(changed), MOST_COMPARED)
                for exchange in list(self.exchanges.values()):
                    if _is_concerned(exchange, "exchanges", changed):
                        with self.events.contained("policies not applied", vhost=self.name, exchange=exchange.name):
                            exchange.policy, *names = self._effect("exchanges", exchange.name)
                            exchange.policy_names = (names[0], names[1])
                    if quantum.spend(cost):
                        self._forget_routes()
                        now = yield
                self._forget_routes()
                for queue in list(self.queues.values()):
                    if not queue.is_deleted and _is_concerned(queue, QUEUE_KINDS[queue.type], changed):
                        with self.events.contained("policies not applied", vhost=self.name, queue=queue.name):
                            self._apply_policies_to(queue, now)
                    if quantum.spend(cost):
                        now = yield
        finally:
            self._is_applying = False

    def _apply_policies_to(self, queue: Queue, now: float) -> None:
        definition, *names = self._effect(QUEUE_KINDS[queue.type], queue.name)
        if definition != queue.policy or names[0] != queue.policy_names[0] or names[1] != queue.policy_names[1]:
            settings = QueueSettings.of(effective_arguments(queue.arguments, definition))
            queue.apply(settings, now)
            queue.policy, queue.policy_names = definition, (names[0], names[1])  # last: the next change tries it again

    # --- checking

    def _check_name(self, kind: str, name: str) -> None:
        if name.startswith("amq."):
            raise AccessRefused(f"{kind} name '{name}' contains reserved prefix 'amq.*'")


def _is_concerned(each: Queue | Exchange, kind: str, changed: list[Policy]) -> bool:
    """Whether one of the changed policies may begin or cease to apply to a queue or exchange."""
    if len(changed) > MOST_COMPARED:
        return True
    return any(policy.name in each.policy_names or policy.matches(kind, each.name) for policy in changed)


def _locked(queue: Queue) -> ResourceLocked:
    return ResourceLocked(
        f"cannot obtain exclusive access to locked {queue}. It could be originally declared on another connection or "
        "the exclusive property value does not match that of the original declaration."
    )
