"""Handlers of the exchange and queue commands. Sections 10.5 and 10.6."""

from __future__ import annotations

from amqproxy.amqp010.commands import (
    ExchangeBind,
    ExchangeBound,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeQuery,
    ExchangeUnbind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueQuery,
)
from amqproxy.amqp010.errors import InvalidArgument, NotAllowed, NotFound, ResourceLocked
from amqproxy.amqp010.methods import Command
from amqproxy.amqp010.results import ExchangeBoundResult, ExchangeQueryResult, QueueQueryResult
from amqproxy.amqp091.wire import Table
from amqproxy.broker.access.permissions import CONFIGURE, READ, WRITE
from amqproxy.broker.amqp010.command_session import CommandSession, Handler
from amqproxy.broker.amqp010.declare_arguments import (
    DELETE_ON_CONNECTION_CLOSE,
    EXCLUSIVITY,
    LIFETIME,
    NONE,
    exchange_arguments,
    queue_arguments,
    shown_arguments,
)
from amqproxy.broker.amqp010.message_commands import queue_name
from amqproxy.broker.amqp010.orphans import orphaning
from amqproxy.broker.amqp010.queue_ownership import accessible, is_exclusive, is_owned, lock
from amqproxy.broker.exchanges.exchange import Binding, Exchange
from amqproxy.broker.queues.queue import ExclusiveOwner, Queue
from amqproxy.broker.vhost import VirtualHost
from amqproxy.broker.work import Job
from amqproxy.conversion.amqp010.header_tables import table_of

RESERVED = ("amq.", "qpid.")
"""Prefixes of the names that are reserved for the broker."""

MOST_COUNT = 0xFFFF_FFFF


# --- exchange


def _named(name: str | None) -> str:
    """Return the name of an exchange other than the default one."""
    if not name:
        raise InvalidArgument("the name of the exchange is missing")
    return name


def _exchange(vhost: VirtualHost, name: str) -> Exchange:
    exchange = vhost.exchanges.get(name)
    if exchange is None:
        raise NotFound(f"there is no exchange '{name}' in the virtual host '{vhost.name}'")
    return exchange


def _queue(session: CommandSession, name: str | None) -> Queue:
    return accessible(session, queue_name(name))


def _alternate(session: CommandSession, kind: str, name: str, alternate: str | None) -> None:
    """Check that a requested alternate exchange exists and that the user may use it."""
    if not alternate:
        return
    _exchange(session.vhost, alternate)
    session.user.check(session.vhost.name, READ, kind, name)
    session.user.check(session.vhost.name, WRITE, "exchange", alternate)


def _declare_exchange(session: CommandSession, command: ExchangeDeclare, position: int, now: float) -> bool:
    vhost, name = session.vhost, _named(command.exchange)
    exchange = vhost.exchanges.get(name)
    alternate = command.alternate_exchange or None
    if command.passive:
        exchange = _exchange(vhost, name)
        if command.type and command.type != exchange.type:
            raise NotAllowed(f"the exchange '{name}' is of the type {exchange.type}, not {command.type}")
        return False
    type_ = command.type or ""
    if type_ not in vhost.exchange_types:
        raise NotFound(f"there is no exchange type '{type_}'")
    if exchange is not None:
        if command.type != exchange.type:
            raise NotAllowed(f"the exchange '{name}' is of the type {exchange.type}, not {command.type}")
        if alternate is not None and alternate != exchange.alternate:
            raise NotAllowed(f"the exchange '{name}' has another alternate exchange")
        return False
    if name.startswith(RESERVED):
        raise NotAllowed(f"the name '{name}' is reserved")
    session.user.check(vhost.name, CONFIGURE, "exchange", name)
    _alternate(session, "exchange", name, alternate)
    made = vhost.declare_exchange(
        name,
        type_,
        durable=command.durable,
        auto_delete=command.auto_delete,
        internal=False,
        arguments=exchange_arguments(command.arguments, alternate),
    )
    return session.kept(position, made.durable)


def _delete_exchange(session: CommandSession, command: ExchangeDelete, position: int, now: float) -> bool:
    vhost, name = session.vhost, _named(command.exchange)
    exchange = _exchange(vhost, name)
    if name.startswith(RESERVED):
        raise NotAllowed(f"the exchange '{name}' cannot be deleted")
    session.user.check(vhost.name, CONFIGURE, "exchange", name)
    return session.finish_kept(
        _deleting_exchange(session, exchange, command.if_unused), position, now, exchange.durable
    )


def _deleting_exchange(session: CommandSession, exchange: Exchange, if_unused: bool) -> Job:
    vhost, quantum = session.vhost, session.vhost.work.quantum
    for each in list(vhost.exchanges.values()):
        if each.alternate == exchange.name:
            raise NotAllowed(f"the exchange '{exchange.name}' is the alternate exchange of '{each.name}'")
        if quantum.spend(1):
            yield
    for queue in list(vhost.queues.values()):
        if queue.settings.dead_letter_exchange == exchange.name:
            raise NotAllowed(f"the exchange '{exchange.name}' is the alternate exchange of the {queue}")
        if quantum.spend(1):
            yield
    vhost.delete_exchange(exchange.name, if_unused=if_unused)
    while vhost.is_unbinding:
        yield


def _query_exchange(session: CommandSession, command: ExchangeQuery, position: int, now: float) -> bool:
    exchange = session.vhost.exchanges.get(command.name_ or "")
    if exchange is None:
        session.result(position, ExchangeQueryResult(not_found=True))
    else:
        arguments = shown_arguments(exchange.arguments)
        session.result(position, ExchangeQueryResult(exchange.type, exchange.durable, False, arguments))
    return False


def _bind(session: CommandSession, command: ExchangeBind, position: int, now: float) -> bool:
    vhost, name, key = session.vhost, _named(command.exchange), command.binding_key or ""
    queue = _queue(session, command.queue)
    exchange = _exchange(vhost, name)
    _check_binding(session, exchange, queue, key)
    arguments = Table() if command.arguments is None else table_of(command.arguments)
    if _bindings(vhost, exchange, queue, key):
        return False  # the existing binding keeps its arguments
    vhost.bind(exchange, queue, key, arguments)
    return session.kept(position, exchange.durable, queue.durable)


def _unbind(session: CommandSession, command: ExchangeUnbind, position: int, now: float) -> bool:
    vhost, name, key = session.vhost, _named(command.exchange), command.binding_key or ""
    queue = _queue(session, command.queue)
    exchange = _exchange(vhost, name)
    _check_binding(session, exchange, queue, key)
    found = _bindings(vhost, exchange, queue, key)
    if not found:
        raise NotFound(f"the {queue} has no binding to the exchange '{name}' with the key '{key}'")
    for binding in found:
        vhost.unbind(exchange, queue, key, binding.arguments, queue.exclusive_to or session)
    return session.kept(position, exchange.durable, queue.durable)


def _check_binding(session: CommandSession, exchange: Exchange, queue: Queue, key: str) -> None:
    user, vhost = session.user, session.vhost.name
    user.check(vhost, WRITE, "queue", queue.name)
    user.check(vhost, READ, "exchange", exchange.name)
    exchange.check_topic(user, vhost, READ, key)


def _bindings(vhost: VirtualHost, exchange: Exchange, queue: Queue, key: str) -> list[Binding]:
    """Return the bindings between the exchange and the queue that have this key."""
    bindings = vhost.bindings_to(queue)
    vhost.work.quantum.left -= len(bindings)
    return [binding for source, binding in bindings if source is exchange and binding.routing_key == key]


def _bound(session: CommandSession, command: ExchangeBound, position: int, now: float) -> bool:
    vhost = session.vhost
    exchange = vhost.exchanges.get(command.exchange or "")
    queue = vhost.queues.get(command.queue) if command.queue else None
    if exchange is None or (command.queue and queue is None):
        lacks_queue = bool(command.queue) and queue is None
        session.result(position, ExchangeBoundResult(exchange is None, lacks_queue))
        return False
    arguments = None if command.arguments is None else table_of(command.arguments)
    return session.finish(_looking(session, exchange, queue, command.binding_key, arguments, position), position, now)


def _looking(
    session: CommandSession,
    exchange: Exchange,
    queue: Queue | None,
    key: str | None,
    arguments: Table | None,
    position: int,
) -> Job:
    """Answer exchange.bound, over several turns: which criteria no binding meets, each alone and all together."""
    found: set[tuple[bool, bool, bool]] = set()
    quantum = session.vhost.work.quantum
    for binding in _every_binding(session.vhost, exchange, queue):
        is_queue = queue is None or binding.destination is queue
        is_key = key is None or binding.routing_key == key
        found.add((is_queue, is_key, arguments is None or _holds(binding.arguments, arguments)))
        if quantum.spend(1):
            yield
    session.result(position, ExchangeBoundResult(False, False, *_lacks(found, queue, key, arguments)))


def _lacks(
    found: set[tuple[bool, bool, bool]], queue: Queue | None, key: str | None, arguments: Table | None
) -> tuple[bool, bool, bool]:
    """Return whether the queue, the key and the arguments are missing from the bindings.

    `found` has, of each binding, whether it matches the queue, the key and the arguments. The key is looked for among
    the queue's bindings, if it has any, and the arguments among those with the key.
    """
    lacks_queue = queue is not None and not any(is_queue for is_queue, _, _ in found)
    found = {each for each in found if each[0] or lacks_queue}
    lacks_key = key is not None and not any(is_key for _, is_key, _ in found)
    found = {each for each in found if each[1] or lacks_key}
    return lacks_queue, lacks_key, arguments is not None and not any(each[2] for each in found)


def _every_binding(vhost: VirtualHost, exchange: Exchange, queue: Queue | None) -> list[Binding]:
    if exchange.name:
        return list(exchange.bindings.values())
    # Each queue is bound to the default exchange by its name.
    queues = vhost.queues.values() if queue is None else (queue,)
    return [Binding(each, each.name, Table()) for each in queues]


def _holds(arguments: Table, wanted: Table) -> bool:
    """Return whether a binding's arguments include the wanted ones."""
    return all(name in arguments and arguments[name] == value for name, value in wanted.items())


# --- queue


def _declare_queue(session: CommandSession, command: QueueDeclare, position: int, now: float) -> bool:
    vhost, name = session.vhost, command.queue or ""
    if not name:
        raise InvalidArgument("the name of the queue is missing")
    queue = vhost.queues.get(name)
    alternate = command.alternate_exchange or None
    if command.passive:
        if queue is None:
            raise vhost.queue_not_found(name)
        if command.exclusive:
            _check_exclusive(queue, session)
        queue.touch(now)
        return False
    if queue is not None:
        queue = accessible(session, name)
        if command.exclusive:
            _check_exclusive(queue, session)
        if alternate is not None and alternate != queue.settings.dead_letter_exchange:
            raise NotAllowed(f"the {queue} has another alternate exchange")
        queue.touch(now)
        return False
    if name.startswith(RESERVED):
        raise NotAllowed(f"the name '{name}' is reserved")
    session.user.check(vhost.name, CONFIGURE, "queue", name)
    vhost.check_queue_limit(name)
    _alternate(session, "queue", name, alternate)
    is_sessions = command.exclusive and command.auto_delete
    arguments = queue_arguments(command.arguments, alternate, is_exclusive=command.exclusive and not is_sessions)
    policy, lifetime = arguments.get(EXCLUSIVITY), arguments.get(LIFETIME)
    owner: ExclusiveOwner | None = None
    if lifetime == DELETE_ON_CONNECTION_CLOSE:
        owner = session.connection
    elif is_sessions and lifetime is None and policy != NONE:
        owner = session
    made = vhost.declare_queue(
        name,
        owner,
        durable=command.durable,
        exclusive=owner is not None,
        auto_delete=command.auto_delete and lifetime is None and owner is None,
        arguments=arguments,
        now=now,
    )
    vhost.events.churn.count_declare(is_new=True)
    if owner is not None:
        owner.exclusive_queues[made] = None
    elif policy not in (None, NONE):
        lock(made, session)
    return session.kept(position, made.durable)


def _check_exclusive(queue: Queue, session: CommandSession) -> None:
    """Raise 405 unless the queue is the session's own, or an exclusive one that no session owns."""
    if not is_exclusive(queue):
        raise ResourceLocked(f"the {queue} is there, and is not exclusive")
    if (queue.exclusive_to or queue.locked_by) is not None and not is_owned(queue, session):
        raise ResourceLocked(f"the {queue} is exclusive to another session")


def _delete_queue(session: CommandSession, command: QueueDelete, position: int, now: float) -> bool:
    queue = _queue(session, command.queue)
    session.user.check(session.vhost.name, CONFIGURE, "queue", queue.name)
    job = _deleting_queue(session, queue, command, now)
    return session.finish_kept(job, position, now, queue.durable)


def _deleting_queue(session: CommandSession, queue: Queue, command: QueueDelete, now: float) -> Job:
    vhost = session.vhost
    while not (queue.is_deleted or queue.is_settled(now)):
        now = yield
    queue.check_delete(if_unused=command.if_unused, if_empty=command.if_empty)
    yield from orphaning(vhost, queue, now)
    vhost.remove_queue(queue)
    while vhost.is_unbinding:
        yield


def _purge_queue(session: CommandSession, command: QueuePurge, position: int, now: float) -> bool:
    queue = _queue(session, command.queue)
    session.user.check(session.vhost.name, READ, "queue", queue.name)
    return session.finish_kept(_purging(session, queue, now), position, now, queue.durable)


def _purging(session: CommandSession, queue: Queue, now: float) -> Job:
    while not (queue.is_deleted or queue.is_settled(now)):
        now = yield
    count = queue.purge()
    events = session.vhost.events
    if events.observers:
        events.report("queue.purged", session.vhost.name, queue, count=count)


def _query_queue(session: CommandSession, command: QueueQuery, position: int, now: float) -> bool:
    queue = session.vhost.queues.get(command.queue or "")
    if queue is None:
        session.result(position, QueueQueryResult())
        return False
    return session.finish(_querying(session, queue, position, now), position, now)


def _querying(session: CommandSession, queue: Queue, position: int, now: float) -> Job:
    while not (queue.is_deleted or queue.is_settled(now)):
        now = yield
    if queue.is_deleted:
        session.result(position, QueueQueryResult())
        return
    goes_with_session = queue.exclusive_to is not None and queue in queue.exclusive_to.exclusive_queues
    session.result(
        position,
        QueueQueryResult(
            queue.name,
            queue.settings.dead_letter_exchange,
            queue.durable,
            is_exclusive(queue),
            queue.auto_delete or goes_with_session,
            shown_arguments(queue.arguments),
            min(queue.message_count, MOST_COUNT),
            min(queue.consumer_count, MOST_COUNT),
        ),
    )


HANDLERS: dict[type[Command], Handler] = {
    ExchangeDeclare: _declare_exchange,
    ExchangeDelete: _delete_exchange,
    ExchangeQuery: _query_exchange,
    ExchangeBind: _bind,
    ExchangeUnbind: _unbind,
    ExchangeBound: _bound,
    QueueDeclare: _declare_queue,
    QueueDelete: _delete_queue,
    QueuePurge: _purge_queue,
    QueueQuery: _query_queue,
}
