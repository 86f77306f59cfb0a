"""Publisher of the dead letters of a virtual host's queues to their dead-letter exchanges."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from amqproxy.broker.events import EventDispatcher
from amqproxy.broker.exchanges.exchange import Exchange
from amqproxy.broker.message import Message
from amqproxy.broker.queues.at_least_once import DeadLetter
from amqproxy.broker.queues.dead_letters import dead_lettered
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.router import Router
from amqproxy.broker.work import WorkQueue
from amqproxy.rabbitmq.profile import Profile


class DeadLetterPublisher:
    """The dead letters of one virtual host; a failing letter is lost without affecting its queue or later letters."""

    def __init__(
        self,
        vhost: str,
        exchanges: Mapping[str, Exchange],
        router: Router,
        events: EventDispatcher,
        work: WorkQueue,
        profile: Profile,
    ) -> None:
        self._vhost = vhost
        self._profile = profile
        self._exchanges = exchanges
        self._router = router
        self._events = events
        self._quantum = work.quantum
        self._waiting: deque[tuple[Queue, Message, str, DeadLetter | None]] = deque()
        self._is_publishing = False

    def publish(
        self, queue: Queue, message: Message, reason: str, now: float, letter: DeadLetter | None = None
    ) -> None:
        """Publish a message that a queue has dropped to the queue's dead-letter exchange, if it has one.

        With `letter`, the queue is notified whether the letter has arrived.
        """
        if self._events.observers and (letter is None or letter.attempts == 1):
            self._events.report("message.dropped", self._vhost, message, queue=queue, reason=reason)
        if queue.settings.dead_letter_exchange is None:
            return
        self._waiting.append((queue, message, reason, letter))
        if self._is_publishing:
            return  # reentrant call from the loop below: a queue that took a dead letter has dropped one itself
        self._is_publishing = True
        try:
            while self._waiting:
                queue, message, reason, letter = self._waiting.popleft()
                arrived: set[str] = set() if letter is None else letter.arrived
                has_arrived = False
                # The failure of one letter must not affect the letters behind it or its queue.
                with self._events.contained("dead letter lost", vhost=self._vhost, queue=queue.name, why=reason):
                    has_arrived = self._publish(queue, message, reason, now, arrived)
                if letter is not None:
                    queue.letter_sent(letter, has_arrived, now)
        finally:
            self._is_publishing = False

    def _publish(self, queue: Queue, message: Message, reason: str, now: float, arrived: set[str]) -> bool:
        """Route a letter to its queues except those it has arrived in; return whether all of its queues have it.

        Without any queue it has not arrived. A letter in a routing cycle is dropped, and that counts as arrived.
        """
        exchange = self._exchanges.get(queue.settings.dead_letter_exchange or "")
        if exchange is None:
            return False
        letter, passed = dead_lettered(queue, message, reason, now, self._profile)
        route = self._router.route(exchange, letter, now)
        self._quantum.left -= len(route.queues)
        has_arrived = bool(route.queues) or route.is_delayed
        for target in route.queues:
            if target.name in passed or target.name in arrived:
                continue
            is_taken = False
            with self._events.contained("dead letter lost", vhost=self._vhost, queue=queue.name, target=target.name):
                is_taken = target.publish(letter, now)
            if is_taken:
                arrived.add(target.name)
            has_arrived = has_arrived and is_taken
        letter.forget_properties()
        return has_arrived
