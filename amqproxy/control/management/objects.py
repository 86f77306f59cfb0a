"""Entries of the broker's objects by kind, made one after another; None lets other tasks have their turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from amqproxy.broker.broker import Broker
from amqproxy.broker.definitions import definitions_json
from amqproxy.broker.definitions.definitions_json import definition_value
from amqproxy.broker.exchanges.exchange import Binding, Exchange
from amqproxy.broker.queues.policies import Policy
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.queues.stream import StreamQueue
from amqproxy.broker.server.served_connection import ServedConnection
from amqproxy.broker.vhost import VirtualHost
from amqproxy.control.changes.binding_key import properties_key
from amqproxy.control.management.served_entries import channel_entries, connection_entries, consumer_entries
from amqproxy.control.management.totals import totals
from amqproxy.shovels.shovel_states import ShovelStates

Entry = dict[str, Any]

COUNTED = 256
"""Queues that are counted before other tasks have their turn."""


class Selection(NamedTuple):
    """The objects of a request: of one virtual host, of one name, or all. `served` are the broker's clients."""

    broker: Broker
    served: Mapping[int, ServedConnection]
    vhost: str | None = None
    name: str | None = None
    shovels: ShovelStates | None = None

    @property
    def vhosts(self) -> list[VirtualHost]:
        """The chosen virtual hosts."""
        if self.vhost is None:
            return list(self.broker.vhosts.values())
        found = self.broker.vhosts.get(self.vhost)
        return [] if found is None else [found]

    def of(self, objects: Mapping[str, Any]) -> list[Any]:
        """Return the chosen ones of objects by name."""
        if self.name is None:
            return list(objects.values())
        return [objects[self.name]] if self.name in objects else []


def _vhosts(chosen: Selection) -> Iterator[Entry | None]:
    for vhost in chosen.vhosts:
        ready = unacked = 0
        for number, queue in enumerate(list(vhost.queues.values()), 1):
            ready += queue.message_count
            unacked += queue.unacked
            if not number % COUNTED:
                yield None
        yield {
            **definitions_json.vhost_entry(vhost),
            "tracing": vhost.is_traced,
            "ready": ready,
            "unacked": unacked,
            "counts": vhost.counts.values(),
            "queues": len(vhost.queues),
            "exchanges": len(vhost.exchanges),
        }


def _users(chosen: Selection) -> Iterator[Entry]:
    for user in chosen.of(chosen.broker.users):
        yield definitions_json.user_entry(user)


def _permissions(chosen: Selection) -> Iterator[Entry]:
    for user in chosen.of(chosen.broker.users):
        for vhost, permission in list(user.permissions.items()):
            if chosen.vhost in (None, vhost):
                yield {"user": user.name, "vhost": vhost, **permission._asdict()}


def _topic_permissions(chosen: Selection) -> Iterator[Entry]:
    for user in chosen.of(chosen.broker.users):
        for (vhost, exchange), permission in list(user.topic_permissions.items()):
            if chosen.vhost in (None, vhost):
                yield {"user": user.name, "vhost": vhost, "exchange": exchange, **permission._asdict()}


def _queues(chosen: Selection) -> Iterator[Entry]:
    for vhost in chosen.vhosts:
        for queue in chosen.of(vhost.queues):
            if not queue.is_deleted:
                yield queue_entry(vhost, queue)


def _exchanges(chosen: Selection) -> Iterator[Entry]:
    for vhost in chosen.vhosts:
        for exchange in chosen.of(vhost.exchanges):
            if not exchange.is_deleted:
                counts = exchange.counts
                yield {
                    **definitions_json.exchange_entry(vhost, exchange),
                    "policy": exchange.policy_names[0],
                    "counts": (counts.published, counts.routed),
                }


def _bindings(chosen: Selection) -> Iterator[Entry]:
    """Yield all bindings, first those of the default exchange, by which it knows every queue."""
    for vhost in chosen.vhosts:
        for queue in list(vhost.queues.values()):
            if not queue.is_deleted:
                yield _default_binding(vhost, queue)
        for exchange in list(vhost.exchanges.values()):
            for binding in list(exchange.bindings.values()):
                yield binding_entry(vhost, exchange, binding)


def _queue_bindings(chosen: Selection) -> Iterator[Entry]:
    """Yield the bindings to the queue of a name."""
    for vhost in chosen.vhosts:
        for queue in chosen.of(vhost.queues):
            yield _default_binding(vhost, queue)
            for source, binding in vhost.bindings_to(queue):
                yield binding_entry(vhost, source, binding)


def _exchange_bindings(chosen: Selection) -> Iterator[Entry]:
    """Yield the bindings to the exchange of a name."""
    for vhost in chosen.vhosts:
        for exchange in chosen.of(vhost.exchanges):
            for source, binding in vhost.bindings_to(exchange):
                yield binding_entry(vhost, source, binding)


def _source_bindings(chosen: Selection) -> Iterator[Entry]:
    """Yield the bindings from the exchange of a name."""
    for vhost in chosen.vhosts:
        for exchange in chosen.of(vhost.exchanges):
            if not exchange.name:
                for queue in list(vhost.queues.values()):
                    yield _default_binding(vhost, queue)
            for binding in list(exchange.bindings.values()):
                yield binding_entry(vhost, exchange, binding)


def _policies(chosen: Selection) -> Iterator[Entry]:
    for vhost in chosen.vhosts:
        for policy in chosen.of(vhost.policies):
            yield _policy_entry(vhost, policy)


def _operator_policies(chosen: Selection) -> Iterator[Entry]:
    for vhost in chosen.vhosts:
        for policy in chosen.of(vhost.operator_policies):
            yield _policy_entry(vhost, policy)


def _parameters(chosen: Selection) -> Iterator[Entry]:
    for each in list(chosen.broker.parameters):
        if chosen.vhost in (None, each["vhost"]):
            yield each
    for vhost in chosen.vhosts:
        yield from definitions_json.parameters_of(vhost)


def _global_parameters(chosen: Selection) -> Iterator[Entry]:
    yield from list(chosen.broker.global_parameters)


def _shovels(chosen: Selection) -> Iterator[Entry]:
    if chosen.shovels is not None:
        yield from chosen.shovels.entries(chosen.vhost, chosen.name)


def _connections(chosen: Selection) -> Iterator[Entry | None]:
    for served in list(chosen.served.values()):
        yield from connection_entries(served, chosen.vhost)
        yield None


def _channels(chosen: Selection) -> Iterator[Entry | None]:
    for served in list(chosen.served.values()):
        yield from channel_entries(served, chosen.vhost)
        yield None


def _consumers(chosen: Selection) -> Iterator[Entry | None]:
    """Yield all consumers, or those of the queue of a name."""
    for served in list(chosen.served.values()):
        yield from consumer_entries(served, chosen.vhost, chosen.name)
        yield None


def _totals(chosen: Selection) -> Iterator[Entry | None]:
    return totals(chosen.broker, chosen.served)


KINDS: Mapping[str, Callable[[Selection], Iterator[Entry | None]]] = {
    "vhosts": _vhosts,
    "users": _users,
    "permissions": _permissions,
    "topic-permissions": _topic_permissions,
    "queues": _queues,
    "exchanges": _exchanges,
    "bindings": _bindings,
    "queue-bindings": _queue_bindings,
    "exchange-bindings": _exchange_bindings,
    "source-bindings": _source_bindings,
    "policies": _policies,
    "operator-policies": _operator_policies,
    "parameters": _parameters,
    "global-parameters": _global_parameters,
    "shovels": _shovels,
    "connections": _connections,
    "channels": _channels,
    "consumers": _consumers,
    "totals": _totals,
}
"""Makers of entries, by kind."""


def brief_queue_entry(vhost: VirtualHost, queue: Queue) -> Entry:
    """Return a queue's entry with its names alone."""
    return {"vhost": vhost.name, "name": queue.name}


def queue_entry(vhost: VirtualHost, queue: Queue) -> Entry:
    """Return a queue's entry; `entered` and `left` count messages since the broker's start."""
    policy, operator_policy = queue.policy_names
    owner = queue.exclusive_to
    single = queue.single_active_consumer
    return {
        **definitions_json.queue_entry(vhost, queue),
        "type": queue.type,
        "exclusive": owner is not None,
        "owner": getattr(owner, "name", None),
        "policy": policy,
        "operator_policy": operator_policy,
        "effective_policy_definition": dict(queue.policy),
        "ready": queue.message_count,
        "unacked": queue.unacked,
        "ready_bytes": queue.body_bytes,
        "memory": queue.bytes_in_memory,
        "consumers": len(queue.consumers),
        "exclusive_consumer_tag": None if queue.exclusive_consumer is None else queue.exclusive_consumer.tag,
        "single_active_consumer_tag": None if single is None else single.tag,
        "delivery_limit": queue.settings.delivery_limit,
        "segments": queue.segment_count if isinstance(queue, StreamQueue) else None,
        "entered": queue.entered,
        "left": queue.left,
        "counts": queue.counts.values() if queue.counts.activity else None,
    }


def _default_binding(vhost: VirtualHost, queue: Queue) -> Entry:
    return {
        "source": "",
        "vhost": vhost.name,
        "destination": queue.name,
        "destination_type": "queue",
        "routing_key": queue.name,
        "arguments": {},
        "properties_key": properties_key(queue.name, b""),
        "exclusive": queue.exclusive_to is not None,
    }


def binding_entry(vhost: VirtualHost, source: Exchange, binding: Binding) -> Entry:
    """Return a binding's entry; `exclusive` if its destination is an exclusive queue, which definitions leave out."""
    destination = binding.destination
    return {
        "source": source.name,
        "vhost": vhost.name,
        "destination": destination.name,
        "destination_type": "exchange" if isinstance(destination, Exchange) else "queue",
        "routing_key": binding.routing_key,
        "arguments": definition_value(binding.arguments),
        "properties_key": properties_key(binding.routing_key, binding.arguments.octets if binding.arguments else b""),
        "exclusive": isinstance(destination, Queue) and destination.exclusive_to is not None,
    }


def _policy_entry(vhost: VirtualHost, policy: Policy) -> Entry:
    return {"vhost": vhost.name, "name": policy.name, **definitions_json.policy_value(policy)}
