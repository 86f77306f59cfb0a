"""What one channel numbers differently on its two legs: delivery tags, confirms, and replies to our own requests."""

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
    """Translates numbers between the legs of one channel.

    `confirms` and `deliveries` are there from the first difference on: from then on, all frames of the channel have to
    pass here. `own_requests` has, for each kind of request of which we sent one, whose the next replies are (True:
    ours); `own_settlings` is what we have settled ourselves in the client's transaction.
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
        """A method as its receiver is to see it: with other numbers, as several methods, or not at all.

        `UnknownDeliveryTag` when the client settles what it was never sent.
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
                # What we have settled ourselves is not the client's to take back.
                return [frame, *[method_frame(self._number, each) for each in self.own_settlings]]
        return [frame]

    def anticipate(self, command: Command, verdict: Verdict) -> Actions:
        """Begin to number what will differ once the verdict is carried out."""
        method = command.method if command.index >= 0 else None
        inserted = [insertion.command.method for insertion in verdict.insertions]
        copies = any(isinstance(each, BasicDeliver) for each in inserted)
        if isinstance(method, (BasicDeliver, BasicGetOk)) and (verdict.behind or copies):
            yield from self.number_deliveries(method.delivery_tag - 1)
        if any(isinstance(each, BasicPublish) for each in inserted):
            yield from self.number_confirms()

    # --- confirms

    def number_confirms(self) -> Actions:
        """Begin to number the confirms, if the broker was asked for them; all that went on by now is common."""
        if self.confirms is None and self.before_confirms() is not None:
            yield Watch()
            self.confirms = ConfirmTranslation(self._published())

    def before_confirms(self) -> int | None:
        """How many publishes of the client's came before the confirm.select that has gone on; None without one.

        What the client's own leg has counted goes first: the broker's knows only of what was let pass, where it counts.
        """
        channel = self._channel(SERVER)
        if channel is None or channel.confirms_from is None:
            return None
        own = self._confirms_from()
        return channel.confirms_from if own is None else own

    def number_of_publish(self, ordinal: int) -> int | None:
        """The number by which the client expects a confirm of its publish; None when it does not expect one."""
        confirms_from = self._confirms_from()
        return None if confirms_from is None or ordinal <= confirms_from else ordinal - confirms_from

    def withhold_publish(self, number: int, *, is_answered: bool) -> bool:
        """A publish does not go on; True when the numbers of confirms differ only from here on."""
        is_first = self.confirms is None
        if self.confirms is None:
            self.confirms = ConfirmTranslation(number - 1)
        within_bounds(self.confirms.withhold, number, is_answered=is_answered)
        return is_first

    def insert_publish(self) -> None:
        """A publish of our own goes on; it has a number where confirms are numbered."""
        if self.confirms is not None and self.before_confirms() is not None:
            within_bounds(self.confirms.insert, self._published() + 1)

    def lose_confirm(self, method: BasicAck | BasicNack) -> None:
        """A confirm of the broker's does not go on."""
        if self.confirms is not None:  # else the broker was not asked for any
            within_bounds(self.confirms.lose, method.delivery_tag, method.multiple, self._published())

    def _published(self) -> int:
        """How many publishes of the client's have been numbered by now, and have gone on or will not."""
        before = self.before_confirms()
        return 0 if before is None else self._directions[CLIENT].settled - before

    def _confirms_from(self) -> int | None:
        """How many publishes came before the client's confirm.select; None without one."""
        channel = self._channel(CLIENT)
        return None if channel is None else channel.confirms_from

    # --- deliveries

    def number_deliveries(self, start: int) -> Actions:
        """Begin to number deliveries; those up to `start` have the same tags on both legs."""
        if self.deliveries is None:
            self.deliveries = DeliveryTagTranslation(start)
            yield Watch()

    def receive(self, tag: int, *, is_acked: bool) -> None:
        """The broker has sent a delivery."""
        assert self.deliveries is not None
        within_bounds(self.deliveries.receive, tag, is_acked=is_acked)

    def handed_out(self, command: Command, tag: int | None) -> Command:
        """A delivery of our own, or one that the broker gave `tag`, under the next tag for the client."""
        if self.deliveries is None:
            return command
        method = command.method
        consumers = self._connections[CLIENT].channels[self._number].consumers
        no_ack = consumers.get(method.consumer_tag, consumers.get("", False))
        new = within_bounds(self.deliveries.hand_out, tag, is_acked=not no_ack)
        method = msgspec.structs.replace(method, delivery_tag=new)
        return Command(command.channel, method, command.properties, command.body)

    def is_acked(self) -> bool:
        """Does the delivery under way have to be acknowledged?"""
        direction = self._directions[SERVER]
        assert direction.first is not None
        return self.needs_ack(direction.first.method) if direction.is_acked is None else direction.is_acked

    def needs_ack(self, method: BasicDeliver | BasicGetOk) -> bool:
        """Does this delivery, which came just now, have to be acknowledged?"""
        channel = self._channel(SERVER)
        if channel is None:
            return False
        if isinstance(method, BasicDeliver):
            return not channel.consumers.get(method.consumer_tag, channel.consumers.get("", False))
        return not channel.got_without_ack

    def settle_ourselves(self, tag: int, answer: Answer) -> Method | None:
        """What to send the broker for a delivery that does not go on; None when basic.recover will requeue it."""
        assert self.deliveries is not None
        self.deliveries.settle_own(tag)
        if self._unanswered(SERVER, "basic.recover"):
            return None  # it is requeued with all others, and may be so already
        return BasicAck(tag, False) if answer is Answer.ACK else BasicReject(tag, answer is Answer.REQUEUE)

    def note_own_settling(self, method: Method) -> None:
        """That was sent. In a transaction it is sent again where the client takes its own back."""
        if self._is_transactional(SERVER):
            self.own_settlings.append(method)
            if len(self.own_settlings) > MAX_OPEN:
                raise ResourceError(f"more than {MAX_OPEN} deliveries are settled in one transaction")

    def _forget_deliveries(self) -> None:
        """What the client has not had of the deliveries is requeued with the others, and comes again."""
        direction = self._directions[SERVER]
        direction.no_longer_postponed(list(direction.postponed))
        for _ in range(len(direction.insertions)):
            command, tag = direction.next_own()
            if tag is None:
                direction.put_off(command, tag)

    # --- replies

    def expect_own_reply(self, to: Peer, method: Method) -> bool:
        """A request of our own goes to a peer; True when a reply to it is to come, which goes no further."""
        if method.name not in REPLIES or getattr(method, "no_wait", False):
            return False
        if method.name not in self.own_requests:
            self.own_requests[method.name] = deque([False] * self._unanswered(to, method.name))
        self.own_requests[method.name].append(True)
        return True

    def takes_own_reply(self, frame: Frame) -> bool:
        """Is this the reply to a request of our own? It is asked once for each reply."""
        owners = self.own_requests.get(ANSWERS.get(BY_INDEX[frame.index].name, ""))
        return owners.popleft() if owners else False

    def _unanswered(self, by: Peer, request: str) -> int:
        """How many replies to such requests are still to come, or wait here."""
        waiting = sum(ANSWERS.get(BY_INDEX[frame.index].name) == request for frame, _ in self._directions[by].queue)
        channel = self._channel(by)
        return waiting if channel is None else waiting + len(channel.awaited[by.other].get(request, ()))

    def _channel(self, peer: Peer) -> Channel | None:
        return self._connections[peer].channels.get(self._number)

    def _is_transactional(self, peer: Peer) -> bool:
        channel = self._channel(peer)
        return channel is not None and channel.mode is ChannelMode.TX
