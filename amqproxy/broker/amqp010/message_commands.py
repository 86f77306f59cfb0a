"""Handlers of the message commands other than message.transfer. Section 10.2."""

from __future__ import annotations

import re

from amqproxy.amqp010.command_ids import CommandIds, id_of
from amqproxy.amqp010.commands import (
    MessageAccept,
    MessageAcquire,
    MessageCancel,
    MessageFlow,
    MessageFlush,
    MessageReject,
    MessageRelease,
    MessageResume,
    MessageSetFlowMode,
    MessageStop,
    MessageSubscribe,
)
from amqproxy.amqp010.domains import AcceptMode, AcquireMode, CreditUnit, FlowMode
from amqproxy.amqp010.errors import (
    IllegalArgument,
    IllegalState,
    NotAllowed,
    NotFound,
    NotImplementedByPeer,
    ResourceLocked,
)
from amqproxy.amqp010.methods import Command
from amqproxy.amqp010.results import Acquired, MessageResumeResult
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp091.errors import AccessRefused
from amqproxy.amqp091.wire import Field, Table
from amqproxy.broker.access.permissions import READ
from amqproxy.broker.amqp010.browser import Browser
from amqproxy.broker.amqp010.command_session import CommandSession, Handler
from amqproxy.broker.amqp010.jms_selector import JmsSelector, SelectorError
from amqproxy.broker.amqp010.queue_ownership import accessible, is_owned, take_up
from amqproxy.broker.amqp010.selecting_consumer import SelectingConsumer
from amqproxy.broker.amqp010.subscription import Subscription
from amqproxy.broker.connections.deliveries import AT_ONCE
from amqproxy.broker.queues.consumer import ACK, REJECT, REQUEUE, UNLIMITED, Consumer
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.queues.queue_arguments import check_consume
from amqproxy.broker.vhost import VirtualHost
from amqproxy.broker.work import Job
from amqproxy.conversion.amqp010.header_tables import table_of

MAX_SUBSCRIPTIONS = 65_536
"""Maximum number of subscriptions of one session."""

READING = 4
"""Quantum cost of parsing a selector, as a multiple of evaluating it on one message."""

SELECTORS = "x-filter-jms-selector", "x-apache-selector"
"""Arguments that hold the selector: that of Qpid's Java peers, and that of its other peers."""


PRIORITY = "x-priority"
_INTEGER = re.compile(r"[-+]?\d{1,9}", re.ASCII)


def _subscribe(session: CommandSession, command: MessageSubscribe, position: int, now: float) -> bool:
    destination, name = command.destination or "", queue_name(command.queue)
    vhost, deliveries = session.vhost, session.deliveries
    if destination in deliveries.subscriptions:
        raise NotAllowed(f"the session has a subscription with the destination '{destination}'")
    if len(deliveries.subscriptions) >= MAX_SUBSCRIPTIONS:
        raise NotAllowed(f"a session may have {MAX_SUBSCRIPTIONS} subscriptions")
    session.user.check(vhost.name, READ, "queue", name)
    queue = accessible(session, name)
    arguments = _arguments(command)
    selector = _selector(arguments)
    if selector is not None:
        vhost.work.quantum.left -= READING * selector.cost
    accepts = (command.accept_mode or AcceptMode.EXPLICIT) == AcceptMode.EXPLICIT
    acquires = (command.acquire_mode or AcquireMode.PRE_ACQUIRED) == AcquireMode.PRE_ACQUIRED
    is_read = not acquires and queue.type == "stream"  # reading a stream never takes anything out
    if is_read and "x-stream-offset" not in arguments:
        arguments = Table([*arguments.fields, Field("x-stream-offset", "S", "first")])
    check_consume(str(queue), queue.type, arguments, vhost.profile)
    prefetch = UNLIMITED - 1 if queue.type == "stream" else 0
    try:
        queue.check_consumer(
            exclusive=command.exclusive, no_ack=not accepts and not is_read, prefetch=prefetch, is_limited=False
        )
    except AccessRefused as error:
        raise ResourceLocked(error.text) from None
    subscription = Subscription(destination, queue, accepts_explicitly=accepts, acquires=acquires)
    subscription.resume_id, subscription.resume_ttl = command.resume_id, command.resume_ttl
    subscription.selector = selector
    take_up(queue, session)
    is_shared = not is_owned(queue, session)
    if selector is not None and (queue.type == "stream" or (is_shared and acquires and queue.type != "classic")):
        raise NotImplementedByPeer(f"a selector of JMS on a queue of the type {queue.type}")
    is_aside = selector is not None and acquires and (is_shared or not _has_copies(vhost, queue))
    if is_aside and queue.arguments.get("x-single-active-consumer"):
        raise NotImplementedByPeer("a selector of JMS on a queue with a single active consumer")
    deliveries.subscriptions[destination] = subscription
    if not acquires and not is_read:
        subscription.browser = Browser(session, subscription, deliveries)
        return False
    subscription.consumer = Consumer(
        destination,
        queue,
        deliveries,
        no_ack=not accepts or is_read,
        exclusive=command.exclusive,
        prefetch=prefetch,
        arguments=arguments,
    )
    if is_aside:
        queue.subscribe_aside(subscription.consumer, now)
        subscription.browser = SelectingConsumer(session, subscription, deliveries)
    else:
        queue.subscribe(subscription.consumer, now)
    if vhost.events.observers:
        vhost.events.report("consumer.created", vhost.name, subscription.consumer)
    return False


def _arguments(command: MessageSubscribe) -> Table:
    """Return the arguments of a subscription.

    As with Broker-J 9.2, a priority may be a text; one that is not a number is ignored.
    """
    if command.arguments is None:
        return Table()
    arguments = table_of(command.arguments)
    priority = arguments.get(PRIORITY)
    if not isinstance(priority, str):
        return arguments
    fields = [field for field in arguments.fields if field.name != PRIORITY]
    if _INTEGER.fullmatch(priority):
        fields.append(Field(PRIORITY, "l", int(priority)))
    return Table(fields)


def _has_copies(vhost: VirtualHost, queue: Queue) -> bool:
    """Return whether a session's own queue holds copies of messages, as a JMS topic subscriber's queue does.

    A copy that the selector does not choose is not wanted. In a queue that clients publish to, such as a JMS temporary
    queue, the message is left for other subscriptions. A quorum queue cannot leave it.
    """
    return queue.type != "classic" or any(source.type != "direct" for source, _ in vhost.bindings_to(queue))


def _selector(arguments: Table) -> JmsSelector | None:
    """Return the selector that a subscription asks for, if any."""
    for name in SELECTORS:
        text = arguments.get(name)
        if isinstance(text, str) and text.strip():
            try:
                return JmsSelector(text)
            except SelectorError as error:
                raise IllegalArgument(f"the selector: {error}", field_index=7) from None
    return None


def queue_name(name: str | None) -> str:
    """Return the name of a queue; illegal-argument if it is missing, as with Broker-J."""
    if not name:
        raise IllegalArgument("the name of the queue is missing", field_index=0)
    return name


def _subscription(session: CommandSession, destination: str | None) -> Subscription:
    found = session.deliveries.subscriptions.get(destination or "")
    if found is None:
        raise NotFound(f"the session has no subscription with the destination '{destination or ''}'")
    return found


def _cancel(session: CommandSession, command: MessageCancel, position: int, now: float) -> bool:
    subscription = _subscription(session, command.destination)
    return session.finish(session.deliveries.cancelling(subscription, now), position, now)


def _set_flow_mode(session: CommandSession, command: MessageSetFlowMode, position: int, now: float) -> bool:
    subscription = _subscription(session, command.destination)
    mode = command.flow_mode or FlowMode.CREDIT
    if mode not in (FlowMode.CREDIT, FlowMode.WINDOW):
        raise IllegalArgument(f"a flow-mode of {mode}", field_index=1)
    if subscription.messages != 0 and subscription.size != 0:
        raise IllegalState("the flow mode cannot be changed while there is credit")
    subscription.is_window = mode == FlowMode.WINDOW
    return False


def _flow(session: CommandSession, command: MessageFlow, position: int, now: float) -> bool:
    subscription = _subscription(session, command.destination)
    unit = command.unit or CreditUnit.MESSAGE
    if unit not in (CreditUnit.MESSAGE, CreditUnit.BYTE):
        raise IllegalArgument(f"a credit-unit of {unit}", field_index=1)
    subscription.add(unit, command.value)
    _pump(subscription, now)
    return False


def _pump(subscription: Subscription, now: float) -> None:
    """Send a subscription the messages that wait for it."""
    if subscription.browser is not None:
        subscription.browser.tick(now)
        return
    consumer = subscription.consumer
    if consumer is not None and consumer.is_blocked:
        consumer.queue.rejoin(consumer)
    subscription.queue.pump(now)


def _flush(session: CommandSession, command: MessageFlush, position: int, now: float) -> bool:
    subscription = _subscription(session, command.destination)
    return session.finish(_flushing(subscription, now), position, now)


def _flushing(subscription: Subscription, now: float) -> Job:
    """Send the waiting messages that there is credit for, then clear the credit."""
    queue, consumer = subscription.queue, subscription.consumer
    _pump(subscription, now)
    browser = subscription.browser
    if browser is not None:
        while browser.is_behind and subscription.has_credit() and not queue.is_deleted:
            now = yield
            _pump(subscription, now)
    while browser is None and queue.message_count and not queue.is_deleted and consumer and consumer.is_ready():
        now = yield
        _pump(subscription, now)
    subscription.clear()


def _stop(session: CommandSession, command: MessageStop, position: int, now: float) -> bool:
    _subscription(session, command.destination).clear()
    return False


def _accept(session: CommandSession, command: MessageAccept, position: int, now: float) -> bool:
    return _settle(session, command.transfers or SequenceSet(), ACK, position, now)


def _reject(session: CommandSession, command: MessageReject, position: int, now: float) -> bool:
    return _settle(session, command.transfers or SequenceSet(), REJECT, position, now)


def _release(session: CommandSession, command: MessageRelease, position: int, now: float) -> bool:
    transfers, redelivered = command.transfers or SequenceSet(), command.set_redelivered
    return _settle(session, transfers, REQUEUE, position, now, redelivered=redelivered)


def _settle(
    session: CommandSession,
    transfers: SequenceSet,
    outcome: str,
    position: int,
    now: float,
    *,
    redelivered: bool = True,
) -> bool:
    deliveries, ids = session.deliveries, session.ranges(transfers)
    if outcome is ACK and session.transaction is not None:
        return session.finish(_accepting(session, ids, now), position, now)
    if outcome is REQUEUE and session.transaction and not session.is_distributed:
        return session.finish(_releasing(session, ids, redelivered, now), position, now)
    if sum(map(len, ids)) <= AT_ONCE:
        entries = [entry for part in deliveries.taking(ids) for entry in part]
        # One call for all entries: a queue gets all of them back before it delivers any.
        deliveries.settle(entries, outcome, now, redelivered=redelivered)
        return False
    return session.finish(deliveries.settling(ids, outcome, now, redelivered=redelivered), position, now)


def _accepting(session: CommandSession, ids: list[range], now: float) -> Job:
    """Accept transfers in a transaction."""
    deliveries = session.deliveries
    for part in deliveries.taking(ids):
        if session.transaction is not None:
            session.transaction.accept(part, deliveries.counts)
        if session.vhost.work.quantum.spend(len(part)):
            yield


def _releasing(session: CommandSession, ids: list[range], redelivered: bool, now: float) -> Job:
    """Release transfers in a transaction, even accepted ones: qpid.messaging does so before it rolls back."""
    assert session.transaction is not None
    withdrawn = yield from session.transaction.withdrawing(CommandIds.of(ids))
    yield from session.deliveries.settling(ids, REQUEUE, now, redelivered=redelivered, also=withdrawn)


def _resume(session: CommandSession, command: MessageResume, position: int, now: float) -> bool:
    """Resume an interrupted message: answer how many of its bytes have been received."""
    destination = command.destination or ""
    if not command.resume_id:
        raise IllegalArgument("the resume-id is missing", field_index=1)
    session.publisher.check_exchange(destination)
    session.result(position, MessageResumeResult(session.publisher.fragments.resume(destination, command.resume_id)))
    return False


def _acquire(session: CommandSession, command: MessageAcquire, position: int, now: float) -> bool:
    ids = session.ranges(command.transfers or SequenceSet())
    return session.finish(_acquiring(session, ids, position, now), position, now)


def _acquiring(session: CommandSession, ids: list[range], position: int, now: float) -> Job:
    found = yield from session.deliveries.acquiring(ids, now)
    ranges = [(id_of(each.start), id_of(each.stop - 1)) for each in found]
    session.result(position, Acquired(SequenceSet(ranges)))


HANDLERS: dict[type[Command], Handler] = {
    MessageAccept: _accept,
    MessageReject: _reject,
    MessageRelease: _release,
    MessageAcquire: _acquire,
    MessageResume: _resume,
    MessageSubscribe: _subscribe,
    MessageCancel: _cancel,
    MessageSetFlowMode: _set_flow_mode,
    MessageFlow: _flow,
    MessageFlush: _flush,
    MessageStop: _stop,
}
