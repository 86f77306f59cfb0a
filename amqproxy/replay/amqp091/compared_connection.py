"""A live 0-9-1 connection that compares its broker with the recorded one.

The recorded broker's commands are awaited, and compared with the live ones; missing and extra ones are reported to the
`ReplayResult`. There is no clock: the time is passed in, in seconds.
"""

from __future__ import annotations

from collections.abc import Callable

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.methods import (
    METHODS,
    BasicAck,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionSecure,
    ConnectionTune,
    Method,
)
from amqproxy.amqp091.transitions import ANSWERS, REPLIES
from amqproxy.comparison.difference import Change
from amqproxy.replay.amqp091.live_connection import MAX_EARLY, Amqp091LiveConnection
from amqproxy.replay.amqp091.played_channel import LiveState, PlayedChannel, PlayedRequest
from amqproxy.replay.answer_changes import answer_changes
from amqproxy.replay.broker_link import Life, ReplayedStream
from amqproxy.replay.content_key import content_key
from amqproxy.replay.deliveries import NOTHING, LiveDelivery
from amqproxy.replay.player import ComparedLink
from amqproxy.replay.steps import BytesSent, CommandSent, ProtocolHeaderSent

RETRY = 0.01
"""Seconds before a basic.get is repeated that got nothing, unlike the recorded one; doubled each time, up to 1 s."""

_NOT_AWAITED = frozenset({"connection.blocked", "connection.unblocked", "channel.flow"})
"""Methods that a broker sends unsolicited: they may come at another time, or not at all."""


_OF_HANDSHAKE = frozenset({"connection.start", "connection.secure", "connection.tune", "connection.open-ok"})


class Amqp091ComparedConnection(ComparedLink, Amqp091LiveConnection):
    """One connection to a broker, and its comparison with a recorded one."""

    WHY_OVER = "its channel was over"

    def __init__(self, replayed: ReplayedStream, *, timeout: float, wake: Callable[[], None]) -> None:
        super().__init__(replayed, timeout=timeout, wake=wake)
        self._recorded_tune: ConnectionTune | None = None
        self._has_other_login = False
        """Whether the live client logs in by another mechanism than the recorded one."""
        self._get: Method | None = None
        self._retry = 0.0
        self._retry_at = 0.0
        self._not_awaited: list[CommandSent] = []
        self._late: list[CommandSent] = []
        """Commands that the recorded broker sent after its client had requested the connection's end."""

    def report_rest(self) -> None:
        for step in self._late:
            found = self._channel_arrived(step.channel).take_arrived((step.command.method.name,))
            if found is not None:
                self._compare(step, found)
        for step in self._not_awaited:
            found = self._channel_arrived(step.channel).take_arrived((step.command.method.name,))
            if found is not None:
                self._compare(step, found)
            else:
                self._result.missing(step, "it did not come")
        for channel in (self._own, *self._channels.values()):
            self._report_arrived(channel)
        self._report_end(is_expected=not self._has_eof or self._is_closed_by_server)

    def report_extra_delivery(self, delivery: LiveDelivery) -> None:
        if not self._lacks_answers:
            self._result.extra(self._names.recorded(delivery.command), self.stream, self.connection, self._now_ns)

    # --- the recorded broker's steps

    def _await_server(self, step: CommandSent | ProtocolHeaderSent | BytesSent, begin: float) -> float | None:
        if isinstance(step, BytesSent):
            return None
        if isinstance(step, ProtocolHeaderSent):
            if self._headers:
                self._headers -= 1
                self._result.answers += 1
                return None
            return self._await(step, begin, is_over=self.life is Life.ENDED)
        try:
            method: Method = step.command.method
        except ProtocolError:
            return None
        if isinstance(method, ConnectionTune):
            self._recorded_tune = method
        channel = self._channels.get(step.channel) if step.channel else self._own
        if channel is None:
            return None  # opened before the capture began, or not opened
        if self._is_joined and method.name in _OF_HANDSHAKE:
            return None
        if self._has_other_login and isinstance(method, ConnectionSecure):
            return None
        if method.name in _NOT_AWAITED:
            if len(self._not_awaited) < MAX_EARLY:
                self._not_awaited.append(step)
            return None
        match method:
            case BasicDeliver():
                return self._await_delivery(step, channel, method, begin)
            case BasicAck() | BasicNack():
                return self._await_confirm(step, channel, method, begin)
            case _:
                return self._await_command(step, channel, method, begin)

    def _await_command(self, step: CommandSent, channel: PlayedChannel, method: Method, begin: float) -> float | None:
        if method.name in ANSWERS and not self._awaited.has_begun(step):
            request = channel.take_recorded(method)
            if request is None or not request.was_sent:
                self._done(step, channel, method)  # its request is not in the capture, or was not sent
                return None
            self._get = request.method
        if isinstance(method, ChannelCloseOk) and channel.is_close_unsent:
            self._done(step, channel, method)
            return None
        names = REPLIES[ANSWERS[method.name]] if method.name in ANSWERS else (method.name,)
        found = channel.take_arrived(names)
        if found is not None:
            if isinstance(method, BasicGetOk) and not isinstance(found.method, BasicGetOk):
                until = self._get_again(step, channel, begin)
                if until is not None:
                    return until
            self._compare(step, found)
            if isinstance(method, BasicGetOk):
                self._match_get(channel, method, found)
            self._done(step, channel, method)
            return None
        if isinstance(method, BasicGetOk) and self._retry and self._now >= self._retry_at > 0:
            self._retry_at = 0.0
            self._send_get(channel)
        if self._is_ending and not isinstance(method, ConnectionCloseOk | ConnectionClose):
            if len(self._late) < MAX_EARLY:
                self._late.append(step)  # whether a broker still answers is chance
            self._done(step, channel, method)
            return None
        is_over = self._is_over(channel, method) or _is_settled_otherwise(channel, method)
        until = self._await(step, begin, is_over=is_over)
        if until is None:
            self._done(step, channel, method)
            return None
        return min(until, self._retry_at) if self._retry_at else until

    def _done(self, step: CommandSent, channel: PlayedChannel, method: Method) -> None:
        """Update the recorded state of a channel after a broker's command, whether it came live or not."""
        self._retry = self._retry_at = 0.0
        match method:
            case ChannelOpenOk():
                channel.is_open = True
            case ChannelCloseOk():
                channel.is_open = False
            case ChannelClose() | ConnectionClose():
                channel.is_close_recorded = True
            case _ if channel.live is LiveState.CLOSED_BY_SERVER:
                if not channel.is_ending and step.channel:
                    self._answer_channel_close(channel)
            case _:
                pass

    def _get_again(self, step: CommandSent, channel: PlayedChannel, begin: float) -> float | None:
        """Return until when to wait before repeating a basic.get on an empty live queue; None if it is given up.

        The recorded queue had a message, which may be under way.
        """
        until = self._await(step, begin, is_over=self._is_over(channel), is_quiet=True)
        if until is None:
            return None
        self._retry = min(self._retry * 2 or RETRY, 1.0)
        self._retry_at = self._now + self._retry
        return min(until, self._retry_at)

    def _send_get(self, channel: PlayedChannel) -> None:
        if self._get is not None and channel.live is LiveState.OPEN:
            self._result.retried += 1
            channel.live_requests.append(PlayedRequest(self._get, was_sent=True))
            self._send(channel.number, self._names.live(Command(channel.number, self._get)).method)

    def _match_get(self, channel: PlayedChannel, method: BasicGetOk, found: Command) -> None:
        channel.last_recorded_tag = max(channel.last_recorded_tag, method.delivery_tag)
        if isinstance(found.method, BasicGetOk):
            delivery = channel.live_open.get(found.method.delivery_tag)
            if delivery is not None:
                channel.recorded_open[method.delivery_tag] = delivery
                return
        channel.recorded_open[method.delivery_tag] = None

    def _await_delivery(
        self, step: CommandSent, channel: PlayedChannel, method: BasicDeliver, begin: float
    ) -> float | None:
        channel.last_recorded_tag = max(channel.last_recorded_tag, method.delivery_tag)
        consumer = channel.consumers.get(method.consumer_tag)
        if consumer is None and channel.has_unwanted:
            return None
        if consumer is None:
            self._result.unplayed(step, "the consumer that gets it is not in the capture")
            return None
        queue = consumer.queue
        is_late = channel.is_ending or consumer.is_ending  # the number of deliveries in flight is chance
        is_over = self._is_over(channel)
        found = self._await_message(step, queue, content_key(step.command), begin, is_late=is_late, is_over=is_over)
        if isinstance(found, float):
            return found
        if found is None and not is_late:
            self._result.missing(step, "it did not come")
        if not consumer.no_ack:
            channel.recorded_open[method.delivery_tag] = found
        if found is not None:
            self._compare(step, found.command)
            found.command = NOTHING  # only the tag is needed for settling it, perhaps much later
        return None

    def _await_confirm(
        self, step: CommandSent, channel: PlayedChannel, method: BasicAck | BasicNack, begin: float
    ) -> float | None:
        if channel.is_unknown and not channel.is_confirming:
            return None  # of publishes numbered since before the capture
        tag = method.delivery_tag
        if method.multiple:
            numbers = [each for each in channel.unconfirmed if each <= tag or not tag]
        else:
            numbers = [tag] if tag in channel.unconfirmed else []
        open_ones = [
            live
            for number in numbers
            if (live := channel.unconfirmed[number]) is not None and live not in channel.confirmed
        ]
        if open_ones:
            is_over = self._is_ending or self._is_over(channel)
            until = self._await(step, begin, is_over=is_over, is_quiet=self._is_ending)
            if until is not None:
                return until
        for number in numbers:
            live = channel.unconfirmed.pop(number)
            said = None if live is None else channel.confirmed.pop(live, None)
            if said is not None and said != method.name:
                changed = [Change(field="method", before=method.name, after=said)]
                self._result.matched(step, Command(channel.number, _CONFIRMS[said]()), changed, 0)
            elif said is not None:
                self._result.answers += 1
        return None

    # --- waiting

    def _is_over(self, channel: PlayedChannel, method: Method | None = None) -> bool:
        """Whether nothing more can come on a channel, or not this method."""
        if self.life is Life.ENDED:
            return True
        if isinstance(method, ConnectionClose):
            return False
        return self._is_closed_by_server or channel.is_over

    # --- comparison

    def _channel_arrived(self, number: int) -> PlayedChannel:
        return self._own if number == 0 else self._channels.get(number) or PlayedChannel(number)

    def _compare(self, step: CommandSent, live: Command) -> None:
        try:
            self._names.learn(step.command, live)
            changes = answer_changes(step.command, self._names.recorded(live))
        except ProtocolError as error:
            self._result.missing(step, f"what came instead is malformed: {error}")
            return
        self._result.matched(step, live, changes, self._now_ns)

    def _report_arrived(self, channel: PlayedChannel) -> None:
        """Report the extra live commands of a channel, unless the capture lacks bytes of the broker."""
        for waiting in channel.arrived.values():
            for command in waiting:
                if channel.number == 0 and command.method.name == "connection.close-ok" and self._is_ending:
                    continue
                if command.method.name != "channel.flow" and not self._lacks_answers:
                    self._result.extra(self._names.recorded(command), self.stream, self.connection, self._now_ns)
        channel.arrived.clear()


_CONFIRMS: dict[str, type[BasicAck] | type[BasicNack]] = {"basic.ack": BasicAck, "basic.nack": BasicNack}


def _is_settled_otherwise(channel: PlayedChannel, method: Method) -> bool:
    """Whether the live broker has answered the request for which the recorded one closed the channel."""
    if not isinstance(method, ChannelClose):
        return False
    cause = METHODS.get(method.failing_class_id << 16 | method.failing_method_id)
    return cause is not None and any(channel.arrived.get(reply) for reply in REPLIES.get(cause.name, ()))
