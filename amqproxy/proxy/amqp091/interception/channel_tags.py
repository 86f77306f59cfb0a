"""Translation of a channel's delivery tags, confirms and replies, where its two legs number them differently."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import msgspec

from amqproxy.amqp091.channel import Channel, ChannelMode
from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import ResourceError
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.methods import (
    BY_INDEX,
    BasicAck,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    Method,
    TxCommit,
    TxRollback,
)
from amqproxy.amqp091.transitions import ANSWERS, CLIENT, REPLIES, SERVER, Peer
from amqproxy.proxy.amqp091.interception.actions import Watch
from amqproxy.proxy.amqp091.interception.channel_direction import ChannelDirection
from amqproxy.proxy.amqp091.interception.encoding import method_frame, settling
from amqproxy.proxy.amqp091.interception.tag_translation import (
    MAX_OPEN,
    ConfirmTranslation,
    DeliveryTagTranslation,
    within_bounds,
)
from amqproxy.proxy.interception.actions import Actions
from amqproxy.rules.verdict import Answer, Verdict


class ChannelTags:
    """Translation of numbers between the legs of one channel.

    `confirms` and `deliveries` are created at the first difference, after which all frames of the channel must pass
    here. `own_requests` has a queue for each kind of request that the proxy has sent, which tells for each expected
    reply whether it is the proxy's (true) or the other peer's; `own_settlings` are the settlements that the proxy has
    sent in the client's transaction.
    """

    __slots__ = (
        "_connections",
        "_directions",
        "_number",
        "confirms",
        "deliveries",
        "own_requests",
        "own_settlings",
    )

    def __init__(
        self, number: int, connections: Mapping[Peer, Connection], directions: Mapping[Peer, ChannelDirection]
    ) -> None:
        self._number = number
        self._connections = connections
        self._directions = directions
        self.confirms: ConfirmTranslation | None = None
        self.deliveries: DeliveryTagTranslation | None = None
        self.own_requests: dict[str, deque[bool]] = {}
        self.own_settlings: list[Method] = []

    def translated(self, sender: Peer, frame: Frame) -> list[Frame]:
        """Return the frames that the receiver gets for a method: renumbered, split into several, or none.

        Raises `UnknownDeliveryTag` when the client settles a delivery that it was never sent.
        """
        name = BY_INDEX[frame.index].name
        if name in REPLIES and name in self.own_requests and not getattr(frame.method, "no_wait", False):
            self.own_requests[name].append(False)
        if sender is SERVER and self.confirms is not None and name in ("basic.ack", "basic.nack"):
            method = frame.method
            settled = within_bounds(self.confirms.translate, method.delivery_tag, method.multiple, self._published())
            return settling(self._number, method, settled)
        return [frame] if self.deliveries is None else self._translated_delivery(self.deliveries, sender, frame)

    def _translated_delivery(self, tags: DeliveryTagTranslation, sender: Peer, frame: Frame) -> list[Frame]:
        method = frame.method
        match method:
            case BasicDeliver() | BasicGetOk():
                within_bounds(tags.receive, method.delivery_tag, is_acked=self.is_acked())
                tag = within_bounds(tags.hand_out, method.delivery_tag)
                return [method_frame(self._number, msgspec.structs.replace(method, delivery_tag=tag))]
            case BasicAck() | BasicNack() | BasicReject() if sender is CLIENT:
                multiple = getattr(method, "multiple", False)
                settled = within_bounds(
                    tags.settle,
                    method.delivery_tag,
                    multiple,
                    kind=(method.name, getattr(method, "requeue", False)),
                    may_be_taken_back=self._is_transactional(CLIENT),
                )
                return settling(self._number, method, settled)
            case BasicRecoverOk() | BasicRecoverAsync():
                tags.recover()
                self._forget_deliveries()
            case TxCommit():
                tags.commit()
                self.own_settlings = []
            case TxRollback():
                tags.roll_back()
                # A rollback of the client must not take back the proxy's own settlements.
                return [frame, *[method_frame(self._number, each) for each in self.own_settlings]]
        return [frame]

    def anticipate(self, command: Command, verdict: Verdict) -> Actions:
        """Start the translations that the verdict will require."""
        method = command.method if command.index >= 0 else None
        inserted = [insertion.command.method for insertion in verdict.insertions]
        copies = any(isinstance(each, BasicDeliver) for each in inserted)
        if isinstance(method, (BasicDeliver, BasicGetOk)) and (verdict.behind or copies):
            yield from self.number_deliveries(method.delivery_tag - 1)
        if any(isinstance(each, BasicPublish) for each in inserted):
            yield from self.number_confirms()

    # --- confirms

    def number_confirms(self) -> Actions:
        """Start translating confirms, if the broker was asked for them; earlier publishes have equal numbers."""
        if self.confirms is None and self.before_confirms() is not None:
            yield Watch()
            self.confirms = ConfirmTranslation(self._published())

    def before_confirms(self) -> int | None:
        """Count the client's publishes before the forwarded confirm.select, or return `None` without one.

        The count on the client's leg takes precedence: the broker's leg counts only what was forwarded, if it counts.
        """
        channel = self._channel(SERVER)
        if channel is None or channel.confirms_from is None:
            return None
        own = self._confirms_from()
        return channel.confirms_from if own is None else own

    def number_of_publish(self, ordinal: int) -> int | None:
        """Return the number with which the client expects its publish confirmed; `None` if it expects no confirm."""
        confirms_from = self._confirms_from()
        return None if confirms_from is None or ordinal <= confirms_from else ordinal - confirms_from

    def withhold_publish(self, number: int, *, is_answered: bool) -> bool:
        """Record that a publish is not forwarded; return whether the numbers of confirms begin to differ here."""
        is_first = self.confirms is None
        if self.confirms is None:
            self.confirms = ConfirmTranslation(number - 1)
        within_bounds(self.confirms.withhold, number, is_answered=is_answered)
        return is_first

    def insert_publish(self) -> None:
        """Record that the proxy publishes a message, which takes a number if confirms are translated."""
        if self.confirms is not None and self.before_confirms() is not None:
            within_bounds(self.confirms.insert, self._published() + 1)

    def lose_confirm(self, method: BasicAck | BasicNack) -> None:
        """Record that a confirm of the broker is not forwarded."""
        if self.confirms is not None:  # otherwise the broker was not asked for confirms
            within_bounds(self.confirms.lose, method.delivery_tag, method.multiple, self._published())

    def _published(self) -> int:
        """Return how many of the client's publishes have been numbered and either forwarded or withheld."""
        before = self.before_confirms()
        return 0 if before is None else self._directions[CLIENT].settled - before

    def _confirms_from(self) -> int | None:
        """Return the number of publishes before the client's confirm.select; `None` without one."""
        channel = self._channel(CLIENT)
        return None if channel is None else channel.confirms_from

    # --- deliveries

    def number_deliveries(self, start: int) -> Actions:
        """Start translating deliveries; tags up to `start` are equal on both legs."""
        if self.deliveries is None:
            self.deliveries = DeliveryTagTranslation(start)
            yield Watch()

    def receive(self, tag: int, *, is_acked: bool) -> None:
        """Record a delivery from the broker."""
        assert self.deliveries is not None
        within_bounds(self.deliveries.receive, tag, is_acked=is_acked)

    def handed_out(self, command: Command, tag: int | None) -> Command:
        """Return a delivery with the client's next tag; `tag` is the broker's, `None` for one made by the proxy."""
        if self.deliveries is None:
            return command
        method = command.method
        consumers = self._connections[CLIENT].channels[self._number].consumers
        no_ack = consumers.get(method.consumer_tag, consumers.get("", False))
        new = within_bounds(self.deliveries.hand_out, tag, is_acked=not no_ack)
        method = msgspec.structs.replace(method, delivery_tag=new)
        return Command(command.channel, method, command.properties, command.body)

    def is_acked(self) -> bool:
        """Whether the current delivery has to be acknowledged."""
        direction = self._directions[SERVER]
        assert direction.first is not None
        return self.needs_ack(direction.first.method) if direction.is_acked is None else direction.is_acked

    def needs_ack(self, method: BasicDeliver | BasicGetOk) -> bool:
        """Whether this delivery, just received, has to be acknowledged."""
        channel = self._channel(SERVER)
        if channel is None:
            return False
        if isinstance(method, BasicDeliver):
            return not channel.consumers.get(method.consumer_tag, channel.consumers.get("", False))
        return not channel.got_without_ack

    def settle_ourselves(self, tag: int, answer: Answer) -> Method | None:
        """Return the settlement to send the broker for a withheld delivery; `None` if basic.recover will requeue it."""
        assert self.deliveries is not None
        self.deliveries.settle_own(tag)
        if self._unanswered(SERVER, "basic.recover"):
            return None  # it is requeued with all others, possibly already
        return BasicAck(tag, False) if answer is Answer.ACK else BasicReject(tag, answer is Answer.REQUEUE)

    def note_own_settling(self, method: Method) -> None:
        """Record a settlement that the proxy has sent, to be repeated if the client rolls back its transaction."""
        if self._is_transactional(SERVER):
            self.own_settlings.append(method)
            if len(self.own_settlings) > MAX_OPEN:
                raise ResourceError(f"more than {MAX_OPEN} deliveries are settled in one transaction")

    def _forget_deliveries(self) -> None:
        """Drop the deliveries that the client has not received; the broker requeues and redelivers them."""
        direction = self._directions[SERVER]
        direction.no_longer_postponed(list(direction.postponed))
        for _ in range(len(direction.insertions)):
            command, tag = direction.next_own()
            if tag is None:
                direction.put_off(command, tag)

    # --- replies

    def expect_own_reply(self, to: Peer, method: Method) -> bool:
        """Record that the proxy sends a request to a peer; return whether a reply will come, which is not forwarded."""
        if method.name not in REPLIES or getattr(method, "no_wait", False):
            return False
        if method.name not in self.own_requests:
            self.own_requests[method.name] = deque([False] * self._unanswered(to, method.name))
        self.own_requests[method.name].append(True)
        return True

    def takes_own_reply(self, frame: Frame) -> bool:
        """Whether this is the reply to a request of the proxy; to be called once for each reply."""
        owners = self.own_requests.get(ANSWERS.get(BY_INDEX[frame.index].name, ""))
        return owners.popleft() if owners else False

    def _unanswered(self, by: Peer, request: str) -> int:
        """Return how many replies to such requests are still expected or queued here."""
        waiting = sum(ANSWERS.get(BY_INDEX[frame.index].name) == request for frame, _ in self._directions[by].queue)
        channel = self._channel(by)
        return waiting if channel is None else waiting + len(channel.awaited[by.other].get(request, ()))

    def _channel(self, peer: Peer) -> Channel | None:
        return self._connections[peer].channels.get(self._number)

    def _is_transactional(self, peer: Peer) -> bool:
        channel = self._channel(peer)
        return channel is not None and channel.mode is ChannelMode.TX
