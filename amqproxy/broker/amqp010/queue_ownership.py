"""Ownership of queues by 0-10 sessions and connections: the exclusivity policies of Qpid Broker-J."""

from __future__ import annotations

from typing import Any

from amqproxy.broker.amqp010.declare_arguments import EXCLUSIVITY, SESSION
from amqproxy.broker.amqp010.owners import OwningSession
from amqproxy.broker.queues.queue import Queue


def accessible(session: OwningSession, name: str) -> Queue:
    """Return a queue that the session, or its connection, may use; 404 or 405 otherwise."""
    queue = session.vhost.queues.get(name)
    if queue is not None and is_owned(queue, session):
        return queue
    return session.vhost.queue(name, session)


def is_owned(queue: Queue, session: OwningSession) -> bool:
    """Whether the session owns the queue, by itself or by its connection."""
    owner = queue.exclusive_to or queue.locked_by
    return owner is session or (owner is not None and owner is session.connection)


def is_exclusive(queue: Queue) -> bool:
    """Whether the queue is owned, or is an exclusive one whose owner is gone."""
    return queue.exclusive_to is not None or queue.locked_by is not None or _is_sessions(queue)


def lock(queue: Queue, session: OwningSession) -> None:
    """Make the session the queue's owner until it ends."""
    queue.locked_by = session
    session.locked_queues[queue] = None


def take_up(queue: Queue, session: OwningSession) -> None:
    """Lock an exclusive queue whose owner is gone, at the first subscription.

    Broker-J 9.2 gives such a queue to the session that subscribes, and not to one that only declares it again.
    """
    if _is_sessions(queue) and queue.exclusive_to is None and queue.locked_by is None:
        lock(queue, session)


def is_local(queue: Queue, session: OwningSession) -> bool:
    """Whether the queue is no-local, and the session is on its owner's connection, or its only subscriber's."""
    if not queue.is_no_local:
        return False
    owner: Any = queue.exclusive_to or queue.locked_by
    if owner is None:
        consumer = next((each for each in queue.consumers if each.exclusive), None)
        owner = None if consumer is None else getattr(consumer.deliveries, "channel", None)
    return owner is not None and getattr(owner, "connection", owner) is session.connection


def _is_sessions(queue: Queue) -> bool:
    return queue.arguments.get(EXCLUSIVITY) == SESSION
