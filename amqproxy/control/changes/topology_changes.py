"""Changes of queues, exchanges and bindings, with the checks and texts that AMQP clients get."""

from __future__ import annotations

from typing import Any

import msgspec

from amqproxy.amqp091.errors import AccessRefused, InternalError
from amqproxy.broker.access.permissions import CONFIGURE, READ, WRITE
from amqproxy.broker.exchanges.exchange import Binding, Exchange
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.vhost import VirtualHost
from amqproxy.control.changes.access_changes import Answer, Change
from amqproxy.control.changes.actor import Actor, check_not_default
from amqproxy.control.changes.binding_key import properties_key


class DeclareQueue(Change, frozen=True, tag="declare-queue"):
    """Declare a queue."""

    vhost: str
    name: str
    durable: bool = True
    auto_delete: bool = False
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)

    def apply(self, actor: Actor) -> Answer:
        vhost = actor.vhost(self.vhost)
        vhost.check_queue_name(self.name)
        actor.check(vhost, CONFIGURE, "queue", self.name)
        if not self.durable and not vhost.profile.permits("transient_nonexcl_queues"):
            raise InternalError(vhost.profile.denied_text("transient_nonexcl_queues"))
        is_new = self.name not in vhost.queues
        if is_new:
            vhost.check_queue_limit(self.name)
            dead_letters_to = self.arguments.get("x-dead-letter-exchange")
            if isinstance(dead_letters_to, str):
                actor.check(vhost, READ, "queue", self.name)
                actor.check(vhost, WRITE, "exchange", dead_letters_to)
        flags = {"durable": self.durable, "auto_delete": self.auto_delete}
        arguments = vhost.with_default_type(actor.table("arguments", self.arguments), exclusive=False, **flags)
        vhost.declare_queue(self.name, None, exclusive=False, arguments=arguments, now=actor.now, **flags)
        vhost.events.churn.count_declare(is_new=is_new)
        return {"new": is_new}


class DeleteQueue(Change, frozen=True, tag="delete-queue"):
    """Delete a queue."""

    vhost: str
    name: str
    if_unused: bool = False
    if_empty: bool = False

    def apply(self, actor: Actor) -> Answer:
        vhost = actor.vhost(self.vhost)
        if self.name not in vhost.queues:
            return {"found": False}
        actor.check(vhost, CONFIGURE, "queue", self.name)
        vhost.delete_queue(self.name, None, if_unused=self.if_unused, if_empty=self.if_empty)
        return {"found": True}


class PurgeQueue(Change, frozen=True, tag="purge-queue"):
    """Drop the messages that wait in a queue."""

    vhost: str
    name: str

    def apply(self, actor: Actor) -> Answer:
        vhost = actor.vhost(self.vhost)
        if self.name not in vhost.queues:
            return {"found": False}
        actor.check(vhost, READ, "queue", self.name)
        queue = vhost.queue(self.name)
        count = queue.purge()
        vhost.events.report("queue.purged", vhost.name, queue, count=count)
        return {"found": True}


class DeclareExchange(Change, frozen=True, tag="declare-exchange"):
    """Declare an exchange."""

    vhost: str
    name: str
    type: str = "direct"
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)

    def apply(self, actor: Actor) -> Answer:
        vhost = actor.vhost(self.vhost)
        vhost.check_exchange_type(self.type)
        check_not_default(self.name)
        actor.check(vhost, CONFIGURE, "exchange", self.name)
        is_new = self.name not in vhost.exchanges
        alternate = self.arguments.get("alternate-exchange")
        if isinstance(alternate, str) and is_new:
            actor.check(vhost, READ, "exchange", self.name)
            actor.check(vhost, WRITE, "exchange", alternate)
        vhost.declare_exchange(
            self.name,
            self.type,
            durable=self.durable,
            auto_delete=self.auto_delete,
            internal=self.internal,
            arguments=actor.table("arguments", self.arguments),
        )
        return {"new": is_new}


class DeleteExchange(Change, frozen=True, tag="delete-exchange"):
    """Delete an exchange."""

    vhost: str
    name: str
    if_unused: bool = False

    def apply(self, actor: Actor) -> Answer:
        vhost = actor.vhost(self.vhost)
        if self.name not in vhost.exchanges:
            return {"found": False}
        check_not_default(self.name)
        if self.name.startswith("amq."):
            raise AccessRefused(f"deletion of system exchange '{self.name}' in vhost '{vhost.name}' not allowed")
        actor.check(vhost, CONFIGURE, "exchange", self.name)
        vhost.delete_exchange(self.name, if_unused=self.if_unused)
        return {"found": True}


class _BindingEnds(Change, frozen=True):
    """Ends of bindings; `destination_type` is `queue` or `exchange`."""

    vhost: str
    source: str
    destination_type: str
    destination: str

    def checked(self, actor: Actor, routing_key: str) -> tuple[VirtualHost, Exchange, Queue | Exchange]:
        """Return both ends; raise 403 without permissions, 404 if either is missing."""
        vhost, kind = actor.vhost(self.vhost), self.destination_type
        actor.check(vhost, WRITE, kind, self.destination)
        check_not_default(self.source)
        if kind == "exchange":
            check_not_default(self.destination)
        actor.check(vhost, READ, "exchange", self.source)
        source = vhost.exchange(self.source)
        source.check_topic(actor.user, vhost.name, READ, routing_key)
        destination = vhost.exchange(self.destination) if kind == "exchange" else vhost.queue(self.destination)
        return vhost, source, destination


class Bind(_BindingEnds, frozen=True, tag="bind"):
    """Add a binding, unless it exists."""

    routing_key: str = ""
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)

    def apply(self, actor: Actor) -> Answer:
        vhost, source, destination = self.checked(actor, self.routing_key)
        arguments = actor.table("arguments", self.arguments)
        vhost.bind(source, destination, self.routing_key, arguments)
        return {"properties_key": properties_key(self.routing_key, arguments.octets if arguments else b"")}


class Unbind(_BindingEnds, frozen=True, tag="unbind"):
    """Remove a binding, named by its `properties_key`."""

    properties_key: str

    def apply(self, actor: Actor) -> Answer:
        vhost = actor.vhost(self.vhost)
        found = self._found(vhost)
        if found is None:
            return {"found": False}
        _, source, destination = self.checked(actor, found.routing_key)
        vhost.unbind(source, destination, found.routing_key, found.arguments)
        return {"found": True}

    def _found(self, vhost: VirtualHost) -> Binding | None:
        objects: Any = vhost.exchanges if self.destination_type == "exchange" else vhost.queues
        destination = objects.get(self.destination)
        if destination is None:
            return None
        for source, binding in vhost.bindings_to(destination):
            if source.name == self.source:
                key = properties_key(binding.routing_key, binding.arguments.octets if binding.arguments else b"")
                if key == self.properties_key:
                    return binding
        return None
