"""Exchanges, queues and bindings of all virtual hosts that clients of this proxy have made or used."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from amqproxy.amqp091.methods import (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueUnbind,
)
from amqproxy.amqp091.wire import Table
from amqproxy.taps.record import json_value
from amqproxy.taps.topology.observed_objects import (
    Actor,
    DeletedFor,
    Observation,
    ObservedBinding,
    ObservedExchange,
    ObservedObject,
    ObservedQueue,
)
from amqproxy.taps.trace.budget import Budget

MAX_OBJECTS = 20_000
"""Limit on the exchanges, queues and bindings kept; beyond it, those not seen for longest are forgotten."""

MAX_BYTES = 32 * 1024 * 1024
"""Approximate limit in bytes on the objects kept, deleted ones included."""

MAX_CLIENT_BYTES = 64 * 1024 * 1024
"""Approximate limit in bytes on the requests and consumers of all clients; those beyond it are not remembered."""

MAX_DELETED = 1_000
"""Limit on the deleted objects that are remembered, the newest."""

OBJECT_COST = 1024
"""Memory charged for an object, in bytes, in addition to its arguments."""

TABLE_COST = 8
"""Memory charged for each byte of an encoded table."""

DIRECT_REPLY_TO = "amq.rabbitmq.reply-to"
"""Prefix of the names of RabbitMQ's pseudo-queues."""

AnyDeclaring = ExchangeDeclare | ExchangeBind | QueueDeclare | QueueBind
"""A request that declares an object."""

Key = tuple[str, ...]
"""Key of an object: the virtual host, the kind, and the names that identify it there."""


class _Kept(NamedTuple):
    """An object, its memory charge in bytes, and the payload of the request that declares it, as it may be shown."""

    observed: ObservedObject
    cost: int
    request: bytes | None = None


class Declaration(NamedTuple):
    """The payload of the request that declares an object, as people may see it, and who declared it first, and when.

    `at` is in seconds since 1970.
    """

    request: bytes
    by: Actor
    at: float


class ObservedTopology:
    """Observed objects by key. `forgotten` counts those forgotten because of the limits.

    `client_budget` is the budget of the requests and consumers of all clients, in bytes. With `keeps_deleted`, deleted
    objects stay in place, in the state "deleted".
    """

    def __init__(
        self, max_objects: int = MAX_OBJECTS, max_bytes: int = MAX_BYTES, *, keeps_deleted: bool = False
    ) -> None:
        self._keeps_deleted = keeps_deleted
        self._max_objects = max_objects
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self._deleted: deque[_Kept] = deque()
        self._bindings_from: dict[Key, dict[Key, None]] = {}
        self._bindings_to: dict[Key, dict[Key, None]] = {}
        self.forgotten = 0
        self.client_budget = Budget(MAX_CLIENT_BYTES)

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: Key) -> bool:
        return key in self._kept

    @property
    def memory_used(self) -> int:
        """Approximate memory of all objects, in bytes."""
        return self._bytes

    def entries(self, vhost: str | None = None) -> Iterator[ObservedObject]:
        """Yield the existing objects of one virtual host or of all: exchanges, then queues, then bindings."""
        there = [kept.observed for kept in self._kept.values()]
        for kind in (ObservedExchange, ObservedQueue, ObservedBinding):
            yield from (each for each in there if isinstance(each, kind) and vhost in (None, each.vhost))

    def deleted(self, vhost: str | None = None) -> Iterator[ObservedObject]:
        """Return the deleted objects of one virtual host or of all, the newest last."""
        return (kept.observed for kept in list(self._deleted) if vhost in (None, kept.observed.vhost))

    def declaration(self, key: Key) -> Declaration | None:
        """Return the declaration of an object; `None` if it was deleted, or forgotten, or may be either."""
        kept = self._kept.get(key)
        if kept is None or kept.request is None or kept.observed.state != "declared":
            return None
        by, at = kept.observed.declared_by, kept.observed.declared_at
        return None if by is None or at is None else Declaration(kept.request, by, at)

    # --- requests of clients

    def carry_out(
        self, seen: Observation, request: Method, shown: Method, queue: str | None = None, *, is_sure: bool = True
    ) -> Key | None:
        """Apply a request that the broker has carried out; unless `is_sure`, it had `no_wait`, and may yet be.

        Return the key of the object that it declares or deletes, if any. `shown` is the request as it may be shown to
        people, `queue` the queue that it means, if it is about one.
        """
        match request:
            case ExchangeDeclare():
                assert isinstance(shown, ExchangeDeclare)
                return self._declare_exchange(seen, request, shown, is_sure=is_sure)
            case QueueDeclare():
                assert isinstance(shown, QueueDeclare)
                return self._declare_queue(seen, request, shown, queue or request.queue, is_sure=is_sure)
            case ExchangeBind():
                assert isinstance(shown, ExchangeBind)
                ends = _exchange(seen, request.source), _exchange(seen, request.destination)
                return self._bind(seen, *ends, request, shown, shown.source, shown.destination, is_sure=is_sure)
            case QueueBind() if queue:
                assert isinstance(shown, QueueBind)
                ends = _exchange(seen, request.exchange), queue_key(seen, queue)
                name = self._shown_name(ends[1], shown.queue or queue)
                shown = replace(shown, queue=name)
                return self._bind(seen, *ends, request, shown, shown.exchange, name, is_sure=is_sure)
            case ExchangeUnbind():
                ends = _exchange(seen, request.source), _exchange(seen, request.destination)
                key = _binding(*ends, request.routing_key, request.arguments)
                return self._delete(seen, key, "unbound", is_sure=is_sure)
            case QueueUnbind() if queue:
                ends = _exchange(seen, request.exchange), queue_key(seen, queue)
                key = _binding(*ends, request.routing_key, request.arguments)
                return self._delete(seen, key, "unbound", is_sure=is_sure)
            case ExchangeDelete():
                return self._delete(seen, _exchange(seen, request.exchange), "deleted", is_sure=is_sure)
            case QueueDelete() if queue:
                return self._delete(seen, queue_key(seen, queue), "deleted", is_sure=is_sure)
            case _:
                pass
        return None

    def begin_consumer(self, seen: Observation, queue: str, shown: str) -> None:
        """Count a consumer of a queue, which may be shown to people by the name `shown`."""
        key = queue_key(seen, queue)
        self._meet(seen, key, shown)
        kept = self._kept.get(key)
        if kept is not None and isinstance(kept.observed, ObservedQueue):
            kept.observed.consumers += 1

    def end_consumer(self, seen: Observation, queue: str, *, may_delete: bool = True) -> bool:
        """Remove a consumer of a queue; return whether the queue is still known.

        An auto-delete queue is deleted with its last consumer, if `may_delete`.
        """
        key = queue_key(seen, queue)
        kept = self._kept.get(key)
        if kept is None or not isinstance(kept.observed, ObservedQueue):
            return False
        if kept.observed.consumers:
            kept.observed.consumers -= 1
            if may_delete and not kept.observed.consumers and kept.observed.auto_delete:
                self._remove(seen, key, "auto-delete")
                return False
        return True

    def end_exclusive(self, seen: Observation, queue: str) -> None:
        """Delete an exclusive queue, whose owner has ended."""
        kept = self._kept.get(queue_key(seen, queue))
        if kept is not None and isinstance(kept.observed, ObservedQueue) and kept.observed.exclusive:
            self._remove(seen, queue_key(seen, queue), "exclusive")

    # --- declarations

    def _declare_exchange(
        self, seen: Observation, request: ExchangeDeclare, shown: ExchangeDeclare, *, is_sure: bool
    ) -> Key | None:
        key = _exchange(seen, request.exchange)
        if request.passive:
            if is_sure:
                self._meet(seen, key, shown.exchange)
            return None
        if self._is_declared(seen, key, is_sure=is_sure):
            return key
        declared = ObservedExchange(
            vhost=seen.shown_vhost,
            state="declared" if is_sure else "unsure",
            declared_by=seen.by,
            declared_at=seen.at,
            seen_at=seen.at,
            name=_text(shown.exchange),
            type=_text(shown.type),
            durable=request.durable,
            auto_delete=request.auto_delete,
            internal=request.internal,
            arguments=json_value(shown.arguments),
        )
        return self._add(key, declared, _cost(request.arguments), shown)

    def _declare_queue(
        self, seen: Observation, request: QueueDeclare, shown: QueueDeclare, name: str, *, is_sure: bool
    ) -> Key | None:
        if not name:
            return None  # with no_wait, the broker chooses the name without reporting it
        key = queue_key(seen, name)
        if request.passive:
            if is_sure:
                self._meet(seen, key, shown.queue or name)
            return None
        if self._is_declared(seen, key, is_sure=is_sure):
            return key
        before = self._kept.get(key)
        declared = ObservedQueue(
            vhost=seen.shown_vhost,
            state="declared" if is_sure else "unsure",
            declared_by=seen.by,
            declared_at=seen.at,
            seen_at=seen.at,
            name=_text(shown.queue or name),
            durable=request.durable,
            exclusive=request.exclusive,
            auto_delete=request.auto_delete,
            arguments=json_value(shown.arguments),
            consumers=before.observed.consumers if before and isinstance(before.observed, ObservedQueue) else 0,
        )
        return self._add(key, declared, _cost(request.arguments), replace(shown, queue=shown.queue or name))

    def _bind(
        self,
        seen: Observation,
        source: Key,
        destination: Key,
        request: QueueBind | ExchangeBind,
        shown: QueueBind | ExchangeBind,
        source_name: str,
        destination_name: str,
        *,
        is_sure: bool,
    ) -> Key:
        if is_sure:
            self._meet(seen, source, source_name)
            self._meet(seen, destination, destination_name)
        key = _binding(source, destination, request.routing_key, request.arguments)
        if self._is_declared(seen, key, is_sure=is_sure):
            return key
        bound = ObservedBinding(
            vhost=seen.shown_vhost,
            state="declared" if is_sure else "unsure",
            declared_by=seen.by,
            declared_at=seen.at,
            seen_at=seen.at,
            source=_text(source_name),
            destination=_text(destination_name),
            destination_type="queue" if destination[1] == "queue" else "exchange",
            routing_key=_text(shown.routing_key),
            arguments=json_value(shown.arguments),
        )
        self._bindings_from.setdefault(source, {})[key] = None
        self._bindings_to.setdefault(destination, {})[key] = None
        return self._add(key, bound, _cost(shown.arguments), shown)

    def _is_declared(self, seen: Observation, key: Key, *, is_sure: bool) -> bool:
        """Return whether a client has already declared the object, and if so, note that it was seen again."""
        kept = self._kept.get(key)
        if kept is None or kept.observed.declared_by is None:
            return False
        self._kept.move_to_end(key)
        kept.observed.seen_at = seen.at
        if is_sure:
            self._revive(kept.observed)
        return True

    def _revive(self, observed: ObservedObject) -> None:
        observed.state = "declared"
        observed.deleted_by = observed.deleted_at = observed.deleted_for = None

    def _meet(self, seen: Observation, key: Key, shown: str) -> None:
        """Note that an exchange or a queue exists, since a client has referred to it."""
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            kept.observed.seen_at = seen.at
            self._revive(kept.observed)
            return
        met: ObservedObject
        if key[1] == "exchange":
            met = ObservedExchange(
                vhost=seen.shown_vhost,
                state="declared",
                declared_by=None,
                declared_at=None,
                seen_at=seen.at,
                name=_text(shown),
                type=None,
                durable=None,
                auto_delete=None,
                internal=None,
                arguments=None,
            )
        elif key[2].startswith(DIRECT_REPLY_TO):
            return
        else:
            met = ObservedQueue(
                vhost=seen.shown_vhost,
                state="declared",
                declared_by=None,
                declared_at=None,
                seen_at=seen.at,
                name=_text(shown),
                durable=None,
                exclusive=None,
                auto_delete=None,
                arguments=None,
                consumers=0,
            )
        self._add(key, met, OBJECT_COST)

    def _shown_name(self, key: Key, otherwise: str) -> str:
        """Return the shown name of a queue that a client means without naming it."""
        kept = self._kept.get(key)
        return kept.observed.name if kept is not None and isinstance(kept.observed, ObservedQueue) else otherwise

    # --- deletions

    def _delete(self, seen: Observation, key: Key, why: DeletedFor, *, is_sure: bool) -> Key:
        if is_sure:
            self._remove(seen, key, why)
        elif key in self._kept:
            self._kept[key].observed.state = "unsure"
        return key

    def _remove(self, seen: Observation, key: Key, why: DeletedFor) -> None:
        """Remove an object with its bindings, and the auto-delete exchanges that lose their last binding."""
        if self._keeps_deleted:
            if key in self._kept:
                self._mark(self._kept[key].observed, seen, why)
            return
        remaining = [key]
        while remaining:
            key = remaining.pop()
            kept = self._kept.pop(key, None)
            if kept is not None:
                self._bury(kept, seen, why)
            sources = self._unlink(key) if key[1] == "binding" else self._remove_bindings(key)
            remaining += [source for source in sources if self._is_auto_delete(source)]
            why = "auto-delete"

    def _remove_bindings(self, key: Key) -> list[Key]:
        """Remove all bindings of an exchange or a queue; return the exchanges whose last binding that was."""
        kept = self._kept
        for binding in self._bindings_from.pop(key, ()):
            _discard(self._bindings_to, (binding[0], binding[3], binding[4]), binding)
            self._bytes -= kept.pop(binding).cost
        sources: list[Key] = []
        for binding in self._bindings_to.pop(key, ()):
            source = (binding[0], "exchange", binding[2])
            if _discard(self._bindings_from, source, binding):
                sources.append(source)
            found = kept.pop(binding, None)  # a binding of an exchange to itself is removed already
            self._bytes -= 0 if found is None else found.cost
        return sources

    def _unlink(self, key: Key) -> tuple[Key, ...]:
        """Remove a binding from both ends; return its source if that has no other binding."""
        vhost, _, source, kind, destination, *_ = key
        source_key, destination_key = (vhost, "exchange", source), (vhost, kind, destination)
        _discard(self._bindings_to, destination_key, key)
        return (source_key,) if _discard(self._bindings_from, source_key, key) else ()

    def _is_auto_delete(self, key: Key) -> bool:
        kept = self._kept.get(key)
        return kept is not None and isinstance(kept.observed, ObservedExchange) and bool(kept.observed.auto_delete)

    def _mark(self, observed: ObservedObject, seen: Observation, why: DeletedFor) -> None:
        observed.state, observed.deleted_for = "deleted", why
        observed.deleted_by, observed.deleted_at = seen.by, seen.at

    def _bury(self, kept: _Kept, seen: Observation, why: DeletedFor) -> None:
        """Remember a deleted object."""
        self._mark(kept.observed, seen, why)
        self._deleted.append(kept)
        if len(self._deleted) > MAX_DELETED:
            self._bytes -= self._deleted.popleft().cost

    # --- bounds

    def _add(self, key: Key, observed: ObservedObject, cost: int, shown: AnyDeclaring | None = None) -> Key:
        before = self._kept.pop(key, None)
        if before is not None:
            self._bytes -= before.cost
        request = None if shown is None else replace(shown, no_wait=False).encode()
        cost += len(request or b"")
        self._kept[key] = _Kept(observed, cost, request)
        self._bytes += cost
        while self._bytes > self._max_bytes and self._deleted:
            self._bytes -= self._deleted.popleft().cost
        while len(self._kept) > self._max_objects or self._bytes > self._max_bytes:
            oldest, kept = self._kept.popitem(last=False)
            self._bytes -= kept.cost
            self.forgotten += 1
            if oldest[1] == "binding":
                self._unlink(oldest)
        return key


def _exchange(seen: Observation, name: str) -> Key:
    return seen.vhost, "exchange", name


def queue_key(seen: Observation, name: str) -> Key:
    """Return the key of a queue."""
    return seen.vhost, "queue", name


def _binding(source: Key, destination: Key, routing_key: str, arguments: Table) -> Key:
    octets = arguments.octets.decode("latin-1")
    return source[0], "binding", source[2], destination[1], destination[2], routing_key, octets


def _discard(bindings: dict[Key, dict[Key, None]], end: Key, key: Key) -> bool:
    """Remove a binding from one end; return whether it was the last there."""
    found = bindings.get(end)
    if found is None or key not in found:
        return False
    del found[key]
    if not found:
        del bindings[end]
    return not found


def _cost(arguments: Table) -> int:
    return OBJECT_COST + TABLE_COST * len(arguments.octets)


def _text(name: str) -> str:
    """Return a name as JSON can represent it."""
    shown = json_value(name)
    return shown if isinstance(shown, str) else name.encode("utf-8", "backslashreplace").decode()
