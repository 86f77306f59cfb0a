"""Snapshots of the channels of the broker's 0-9-1 clients."""

from __future__ import annotations

from collections.abc import Sequence

from amqproxy.amqp091.channel import Channel
from amqproxy.amqp091.commands import Command
from amqproxy.broker.amqp091 import direct_reply_to
from amqproxy.broker.amqp091.connection import Amqp091Connection
from amqproxy.peer import Peer
from amqproxy.taps.metering.amqp091.channel_snapshots import Amqp091ChannelSnapshots
from amqproxy.taps.metering.amqp091.message_meter import MessageMeter
from amqproxy.taps.topology.client_requests import ChannelView
from amqproxy.taps.trace.snapshot import ConsumerSnapshot


class AllShown:
    """The commands of a client of the broker: there are no rules, so that all are shown, and none waits."""

    def covered_method(self, sender: Peer, command: Command) -> Command:
        return command

    def unshown_publishes(self, number: int) -> int:
        return 0


class ServedChannelSnapshots(Amqp091ChannelSnapshots):
    """Snapshots of the channels of one client; the broker's channels know the consumers and the last queues."""

    __slots__ = ("_served",)

    def __init__(self, connection: Amqp091Connection, meter: MessageMeter, offset_ns: int) -> None:
        super().__init__(connection.protocol.channels, AllShown(), meter, {}, offset_ns)
        self._served = connection.channels

    def _all_consumers(
        self, number: int, channel: Channel, view: ChannelView | None
    ) -> tuple[Sequence[ConsumerSnapshot], bool]:
        served = self._served.get(number)
        if served is None:
            return (), False
        shown = [
            self._consumer(each.tag, each.queue.name, no_ack=each.no_ack, exclusive=each.exclusive)
            for each in served.deliveries.consumers.values()
        ]
        if served.reply_tag is not None:
            shown.append(self._consumer(served.reply_tag, direct_reply_to.NAME, no_ack=True, exclusive=False))
        found = [each for each in shown if each is not None]
        metered = self._metered.get(number)  # which knows what was shown: a basic.cancel of the broker may be unsent
        return found, len(found) == (0 if metered is None else metered.consumers)

    def _last_queue(self, number: int, view: ChannelView | None) -> str | None:
        served = self._served.get(number)
        return None if served is None else served.last_queue or None
