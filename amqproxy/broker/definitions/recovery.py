"""Recording of a broker's definitions in its journal, and their restoration after a restart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.wire import Table
from amqproxy.broker.access.permissions import Permission, TopicPermission
from amqproxy.broker.access.users import User
from amqproxy.broker.queues.policies import make_policy
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.queues.stream import StreamQueue
from amqproxy.broker.storage.definition_records import (
    AnyDurable,
    DefinitionRecord,
    DurableBinding,
    DurableExchange,
    DurableOrphans,
    DurableParameter,
    DurablePermission,
    DurablePolicy,
    DurableQueue,
    DurableSegment,
    DurableTopicPermission,
    DurableTransaction,
    DurableUser,
    DurableVhost,
)
from amqproxy.broker.storage.journal import Journal

if TYPE_CHECKING:
    from amqproxy.broker.broker import Broker
    from amqproxy.broker.events import BrokerEvent
    from amqproxy.broker.exchanges.exchange import Binding, Exchange
    from amqproxy.broker.vhost import VirtualHost

GLOBAL = "global"


class DefinitionRecorder:
    """Writes a broker's definitions to a journal.

    It observes the broker's events. Durable queues, exchanges and bindings are written on their events. Operator
    settings are compared with the stored ones once per batch after an event about them, or when `compare` is called.
    """

    def __init__(self, broker: Broker, journal: Journal) -> None:
        self._broker = broker
        self.journal = journal
        self._known: dict[str, DefinitionRecord] = {}
        self._is_stale = False

    def begin(self, durables: Iterable[DefinitionRecord]) -> None:
        """Take over the stored settings and start observing events."""
        self._known = {each.key: each for each in durables if not isinstance(each, TOPOLOGY)}
        self._broker.events.recorders.append(self)
        self.journal.gather = self._gather

    def __call__(self, event: BrokerEvent) -> None:
        noun, _, verb = event.name.partition(".")
        if noun in ("queue", "exchange", "binding"):
            vhost = self._broker.vhosts.get(event.vhost)
            subject = event.subject
            found = (
                durable_binding(event.vhost, event.details["source"], subject)
                if noun == "binding"
                else durable_queue(event.vhost, subject)
                if noun == "queue"
                else durable_exchange(event.vhost, subject)
            )
            if found is None:
                return
            if verb == "created" and vhost is not None:
                self.journal.remember(found)
            else:
                self._forget(found)
                if isinstance(subject, StreamQueue):
                    for segment in subject.durables():
                        self.journal.forget(segment.key)
        elif noun == "vhost" and verb == "deleted":
            for each in topology(event.subject):
                self._forget(each)
        if noun in SETTINGS:
            self._is_stale = True
            self.journal.stir()

    def _gather(self) -> None:
        if self._is_stale:
            self.compare()

    def compare(self) -> None:
        """Record changes of virtual hosts, users, permissions, policies and parameters since the last comparison."""
        self._is_stale = False
        now = {each.key: each for each in settings(self._broker)}
        for key in self._known.keys() - now.keys():
            self.journal.forget(key)
        for key, each in now.items():
            if self._known.get(key) != each:
                self.journal.remember(each)
        self._known = now

    def _forget(self, durable: DefinitionRecord) -> None:
        self.journal.forget(durable.key)
        if isinstance(durable, DurableQueue):
            highest = Table.from_octets(durable.arguments).get("x-max-priority", 0)
            self.journal.delete_logs("queue", durable.vhost, durable.name, highest + 1)
        elif isinstance(durable, DurableExchange):
            self.journal.delete_logs("exchange", durable.vhost, durable.name)


SETTINGS = ("vhost", "user", "permission", "topic", "policy", "parameter")
"""First words of the names of events about operator settings."""

TOPOLOGY = (DurableExchange, DurableQueue, DurableBinding, DurableSegment, DurableTransaction, DurableOrphans)
"""Records of objects that clients declare or cause; they may be numerous, so each is recorded when it changes."""


# --- definitions as records


def settings(broker: Broker) -> Iterator[DefinitionRecord]:
    """Iterate over the records of all settings, excluding what clients declare."""
    for vhost in broker.vhosts.values():
        yield DurableVhost(
            name=vhost.name,
            description=vhost.description,
            tags=tuple(vhost.tags),
            metadata=dict(vhost.metadata),
            limits=dict(vhost.limits),
            is_traced=vhost.is_traced,
        )
        for level, policies in (("policy", vhost.policies), ("operator_policy", vhost.operator_policies)):
            for policy in policies.values():
                yield DurablePolicy(
                    vhost=vhost.name,
                    level=level,
                    name=policy.name,
                    pattern=policy.pattern.pattern,
                    definition=dict(policy.definition),
                    priority=policy.priority,
                    apply_to=policy.apply_to,
                )
    for user in broker.users.values():
        yield DurableUser(
            name=user.name,
            password_hash=user.password_hash,
            hashing_algorithm=user.hashing_algorithm,
            tags=user.tags,
            limits=dict(user.limits),
            only_from_loopback=user.only_from_loopback,
        )
        for name, permission in user.permissions.items():
            yield DurablePermission(user=user.name, vhost=name, **permission._asdict())
        for (name, exchange), topic in user.topic_permissions.items():
            yield DurableTopicPermission(user=user.name, vhost=name, exchange=exchange, **topic._asdict())
    for each in broker.parameters:
        yield DurableParameter(**{name: each[name] for name in ("vhost", "component", "name", "value")})
    for each in broker.global_parameters:
        yield DurableParameter(vhost="", component=GLOBAL, name=each["name"], value=each["value"])


def topology(vhost: VirtualHost) -> Iterator[DefinitionRecord]:
    """Iterate over the records of a virtual host's durable exchanges, queues and bindings."""
    found = (
        *(durable_exchange(vhost.name, exchange) for exchange in vhost.exchanges.values()),
        *(durable_queue(vhost.name, queue) for queue in vhost.queues.values()),
        *(
            durable_binding(vhost.name, source, binding)
            for source in vhost.exchanges.values()
            for binding in source.bindings.values()
        ),
    )
    return (each for each in found if each is not None)


def durable_exchange(vhost: str, exchange: Exchange) -> DurableExchange | None:
    if not exchange.durable or not exchange.name or exchange.name.startswith("amq."):
        return None
    return DurableExchange(
        vhost=vhost,
        name=exchange.name,
        type=exchange.type,
        auto_delete=exchange.auto_delete,
        internal=exchange.internal,
        arguments=exchange.arguments.octets,
    )


def durable_queue(vhost: str, queue: Queue) -> DurableQueue | None:
    if not lasts(queue):
        return None
    return DurableQueue(vhost=vhost, name=queue.name, auto_delete=queue.auto_delete, arguments=queue.arguments.octets)


def durable_binding(vhost: str, source: Exchange, binding: Binding) -> DurableBinding | None:
    if not source.durable or not lasts(binding.destination):
        return None
    return DurableBinding(
        vhost=vhost,
        source=source.name,
        destination_type="queue" if isinstance(binding.destination, Queue) else "exchange",
        destination=binding.destination.name,
        routing_key=binding.routing_key,
        arguments=binding.arguments.octets,
    )


def lasts(place: Queue | Exchange) -> bool:
    """Whether a queue or exchange outlives the broker: it is durable and not exclusive to a connection."""
    return place.durable and (not isinstance(place, Queue) or place.exclusive_to is None)


# --- restoration


def restore(
    broker: Broker, durables: Iterable[AnyDurable], now: float, made: Callable[[], None] = lambda: None
) -> list[str]:
    """Restore the definitions of a new broker, and return a text for each that could not be restored.

    A new broker's default objects are kept only if they were stored. `made` is called before the queues start;
    transactions are left to it, and messages of deleted queues to `recover_orphans`.
    """
    definitions = (each for each in durables if not isinstance(each, (DurableTransaction, DurableOrphans)))
    ordered = sorted(definitions, key=lambda each: (ORDER.index(type(each)), each.key))
    if not ordered:
        return []
    for vhost in [name for name in broker.vhosts if DurableVhost(name=name).key not in {each.key for each in ordered}]:
        broker.delete_vhost(vhost, now)
    broker.users.clear()
    faults = []
    for each in ordered:
        try:
            _make(broker, each, now)
        except (ProtocolError, ValueError, KeyError) as error:
            faults.append(f"{each.key.replace(chr(0), ' ')!a}: {error!r}")
    made()
    for found in list(broker.vhosts.values()):
        found.recovered(now)
    return faults


def _make(broker: Broker, each: AnyDurable, now: float) -> None:
    match each:
        case DurableVhost():
            vhost = broker.add_vhost(each.name)
            vhost.describe(each.description, each.tags)
            vhost.metadata = dict(each.metadata)
            vhost.set_limits(each.limits)
            vhost.trace(each.is_traced)
        case DurableUser():
            user = User(each.name, each.password_hash, each.hashing_algorithm, each.tags)
            user.set_limits(each.limits)
            broker.add_user(user)
        case DurablePermission():
            broker.users[each.user].permit(each.vhost, Permission(each.configure, each.write, each.read))
        case DurableTopicPermission():
            broker.users[each.user].permit_topic(each.vhost, each.exchange, TopicPermission(each.write, each.read))
        case DurablePolicy():
            is_operator = each.level == "operator_policy"
            policy = make_policy(
                each.name,
                each.pattern,
                each.definition,
                each.priority,
                each.apply_to,
                is_operator=is_operator,
                keeps_unknown=True,
            )
            broker.vhosts[each.vhost].set_policy(policy, now, is_operator=is_operator)
        case DurableParameter(component="global", vhost=""):
            broker.set_global_parameter(each.name, each.value)
        case DurableParameter():
            broker.set_parameter(each.vhost, each.component, each.name, each.value)
        case DurableExchange():
            broker.vhosts[each.vhost].declare_exchange(
                each.name,
                each.type,
                durable=True,
                auto_delete=each.auto_delete,
                internal=each.internal,
                arguments=Table.from_octets(each.arguments),
            )
        case DurableQueue():
            broker.vhosts[each.vhost].declare_queue(
                each.name,
                None,
                durable=True,
                exclusive=False,
                auto_delete=each.auto_delete,
                arguments=Table.from_octets(each.arguments),
                now=now,
            )
        case DurableSegment():
            stream = broker.vhosts[each.vhost].queues[each.stream]
            assert isinstance(stream, StreamQueue)
            stream.recover(each)
        case DurableBinding():
            vhost = broker.vhosts[each.vhost]
            destination = (vhost.queues if each.destination_type == "queue" else vhost.exchanges)[each.destination]
            vhost.bind(vhost.exchanges[each.source], destination, each.routing_key, Table.from_octets(each.arguments))


ORDER: tuple[type[DefinitionRecord], ...] = (
    DurableVhost,
    DurableUser,
    DurablePermission,
    DurableTopicPermission,
    DurablePolicy,
    DurableParameter,
    DurableExchange,
    DurableQueue,
    DurableSegment,
    DurableBinding,
)
"""Order of restoration: each kind may need those before it."""
