"""One recorded 0-9-1 connection, played against a live broker."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import OVERHEAD
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlowOk,
    ChannelOpen,
    ConfirmSelect,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionSecureOk,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    Method,
    TxCommit,
    TxRollback,
    TxSelect,
)
from amqproxy.amqp091.transitions import REPLIES, ConnectionState
from amqproxy.replay.amqp091.compared_connection import Amqp091ComparedConnection
from amqproxy.replay.amqp091.login import exceeds, open_method, start_ok, tune_ok
from amqproxy.replay.amqp091.played_channel import LiveState, PlayedChannel, PlayedConsumer
from amqproxy.replay.amqp091.restored_channel import restored_channel, restoring_methods
from amqproxy.replay.broker_link import Life, ReplayedStream
from amqproxy.replay.deliveries import LiveDelivery
from amqproxy.replay.player import Ahead, NotReadYet, Player
from amqproxy.replay.steps import (
    BytesSent,
    CommandSent,
    ConnectionEnded,
    ConnectionRestored,
    ProtocolHeaderSent,
)
from amqproxy.taps.trace.snapshot import ChannelSnapshot


class Amqp091Player(Player, Amqp091ComparedConnection):
    """One 0-9-1 connection that is played."""

    def __init__(self, replayed: ReplayedStream, *, timeout: float, wake: Callable[[Player], None]) -> None:
        super().__init__(replayed, timeout=timeout, wake=wake)
        self._ignores_block = False
        """Whether the wait for the end of a block that still lasts has timed out."""

    # --- the client's steps

    def _play_client(
        self, step: CommandSent | ProtocolHeaderSent | BytesSent | ConnectionRestored, ahead: Ahead
    ) -> float | None:
        if self.life is Life.NEW:
            self._result.unplayed(step, "it is not known what came before it")
            return None
        if self._is_logging_in:
            return self._awaited.patience(step, self._now, "the broker did not answer the login")
        if self.life is Life.ENDED:
            self._result.unplayed(step, self.error or "the connection was over")
            return None
        if isinstance(step, ProtocolHeaderSent):
            self._send_header(step.data)
            return None
        if isinstance(step, ConnectionRestored):
            return self._restore(step)
        if isinstance(step, BytesSent):
            self._is_irregular = True
            self._write(step.data, has_secrets=False)
            self._result.sent += 1
            return None
        try:
            method = step.command.method
            if step.command.frames[1:]:
                _ = step.command.header
        except ProtocolError:
            self._send_raw(step)
            return None
        is_cut = self._is_closed_by_server and not self._own.is_close_recorded
        is_cut = is_cut and not isinstance(method, ConnectionCloseOk)
        if is_cut and not self._closes_next(step, 0, "connection.close", ahead):
            self._answer_connection_close()
            self._result.unplayed(step, self.error)
            return None
        if step.channel == 0:
            return self._play_on_connection(step, method, ahead)
        return self._play_on_channel(step, method, ahead)

    def _restore(self, step: ConnectionRestored) -> float | None:
        """Open the channels that were open, and bring them into their recorded states."""
        states = {each.number: each for each in step.snapshot.channels}
        if not self._channels:
            for number, state in states.items():
                channel = restored_channel(state)
                if channel is not None and number not in self._channels:
                    self._channels[number] = channel
                    self._send(number, ChannelOpen())
        if any(channel.live is LiveState.OPENING or channel.probed for channel in self._channels.values()):
            until = self._awaited.patience(step, self._now, "the channels were not opened")
            if until is not None:
                return until
        for number, channel in self._channels.items():
            channel.probed.clear()
            if channel.live is LiveState.OPEN:
                self._restore_channel(channel, states[number])
        return None

    def _restore_channel(self, channel: PlayedChannel, state: ChannelSnapshot) -> None:
        for method in restoring_methods(state, channel.missing):
            live = self._names.live(Command(channel.number, method)).method
            if isinstance(method, BasicConsume):
                consumer = self._consumer(channel, method)
                channel.consumers[method.consumer_tag] = channel.live_consumers[live.consumer_tag] = consumer
            self._send(channel.number, live)

    def _lose_track(self) -> None:
        """Continue a handshake without the recorded client's steps."""
        self._is_joined = True
        if self.life is Life.CONNECTED and self._live.state is not ConnectionState.OPEN and not self._is_logging_in:
            self._is_logging_in = True
            for method in (self._start, self._tune):
                if method is not None and self._live.state in (ConnectionState.STARTED, ConnectionState.TUNED):
                    self._log_in(method)

    def _play_on_connection(self, step: CommandSent, method: Method, ahead: Ahead) -> float | None:
        match method:
            case ConnectionStartOk() | ConnectionTuneOk() | ConnectionOpen() if self._is_joined:
                return None
            case ConnectionStartOk():
                if self._is_accepted(step, ahead, "connection.tune", "connection.secure"):
                    recorded, method = method, start_ok(self._target, self._start, method)
                    self._has_other_login = method.mechanism != recorded.mechanism
            case ConnectionSecureOk() if self._has_other_login:
                return None
            case ConnectionTuneOk():
                tune = self._tune or ConnectionTune()
                if self._recorded_tune is None or not exceeds(method, self._recorded_tune):
                    method = tune_ok(tune, method)
            case ConnectionOpen():
                if self._is_accepted(step, ahead, "connection.open-ok"):
                    method = open_method(self._target, method)
                self._virtual_host = method.virtual_host
            case ConnectionUpdateSecret():
                method = msgspec.structs.replace(method, new_secret=self._target.password.encode())
            case ConnectionClose():
                self._is_ending = True
                for channel in self._channels.values():
                    channel.is_ending = True
            case ConnectionCloseOk():
                if self._is_closed_by_server:
                    self._answer_connection_close()
                elif not self._is_ending:  # the live broker has not closed the connection, unlike the recorded one
                    self._is_ending = True
                    self._send(0, ConnectionClose(200, "the recorded connection ends here"))
                return None
            case _:
                pass
        if method.name in REPLIES:
            self._own.note_request(method, was_sent=True)
        self._send_as(step, method)
        return None

    def _is_accepted(self, step: CommandSent, ahead: Ahead, *names: str) -> bool:
        """Return whether the recorded broker answered with one of these."""
        answer = _next_answer(ahead, step.stream, 0)
        return answer is None or (isinstance(answer, CommandSent) and answer.command.method.name in names)

    def _closes_next(self, step: CommandSent, channel: int, name: str, ahead: Ahead) -> bool:
        """Return whether the next command of the recorded broker on a channel is its close."""
        answer = _next_answer(ahead, step.stream, channel)
        return isinstance(answer, CommandSent) and answer.method_name == name

    def _play_on_channel(self, step: CommandSent, method: Method, ahead: Ahead) -> float | None:
        number = step.channel
        channel = self._channels.get(number)
        if isinstance(method, ChannelOpen):
            return self._open_channel(step, channel)
        if channel is None:
            if not self._is_joined:  # the recorded client's violation of the protocol
                self._send_raw(step)
                return None
            channel = self._channels[number] = PlayedChannel(number, is_unknown=True)
            self._send(number, ChannelOpen())
        if channel.is_unknown and channel.live is LiveState.OPENING:
            return self._awaited.patience(step, self._now, "the channel was not opened")
        is_gone = not channel.is_open and channel.live is LiveState.CLOSED
        if is_gone and not self._is_joined and not isinstance(method, ChannelCloseOk):
            self._send_raw(step)  # the recorded client's violation of the protocol
            return None
        is_cut = channel.is_open and channel.live is LiveState.CLOSED_BY_SERVER and not channel.is_close_recorded
        is_cut = is_cut and not isinstance(method, ChannelCloseOk)
        if is_cut and not self._closes_next(step, number, "channel.close", ahead):
            self._answer_channel_close(channel)
        if not step.is_wanted:
            self._skip_on_channel(step, channel, method)
            return None
        if channel.live is LiveState.CLOSED and not isinstance(method, ChannelCloseOk):
            self._result.unplayed(step, channel.why_closed or "the channel was closed")
            self._skip_on_channel(step, channel, method)
            return None
        match method:
            case ChannelClose():
                channel.is_ending = True
                channel.live = LiveState.CLOSED_BY_CLIENT
                self._send_as(step, method)
            case ChannelCloseOk():
                channel.is_open = False
                if channel.live is LiveState.CLOSED_BY_SERVER:
                    channel.live = LiveState.CLOSED
                    self._send_as(step, method)
                    self._end_channel(channel)
                elif channel.live in (LiveState.OPEN, LiveState.OPENING):
                    channel.is_quiet = True
                    channel.live = LiveState.CLOSED_BY_CLIENT
                    self._send(number, ChannelClose(200, "the recorded channel ends here"))
            case ChannelFlowOk():
                pass  # the live connection answers each channel.flow when it comes
            case BasicCancelOk():
                self._send_as(step, method)
            case BasicAck() | BasicNack() | BasicReject():
                self._settle(step, channel, method)
            case BasicPublish():
                return self._publish(step, channel)
            case BasicCancel() if (until := self._await_crossing(step, channel, method, ahead)) is not None:
                return until
            case _:
                self._request(step, channel, method)
        return None

    def _open_channel(self, step: CommandSent, channel: PlayedChannel | None) -> float | None:
        if channel is not None:
            is_twice = channel.is_open or (channel.live is LiveState.OPENING and not channel.is_unknown)
            if is_twice and not self._is_joined:
                self._send_raw(step)  # the recorded client's violation of the protocol
                return None
            if channel.live is LiveState.CLOSED_BY_SERVER:
                self._answer_channel_close(channel)
            elif channel.live is LiveState.OPEN:
                channel.is_quiet = True
                channel.live = LiveState.CLOSED_BY_CLIENT
                self._send(channel.number, ChannelClose(200, "the recorded channel ends here"))
            if channel.live is LiveState.CLOSED_BY_CLIENT:
                return self._awaited.patience(step, self._now, "the channel was not closed")
            self._report_arrived(channel)
        self._channels[step.channel] = PlayedChannel(step.channel)
        self._send_as(step, step.command.method)
        return None

    def _skip_on_channel(self, step: CommandSent, channel: PlayedChannel, method: Method) -> None:
        """Update the state of a channel for a recorded command that is not sent."""
        channel.has_unwanted |= not step.is_wanted
        if method.name in REPLIES and not getattr(method, "no_wait", False):
            channel.note_request(method, was_sent=False)
        if isinstance(method, ChannelClose):
            channel.is_ending = channel.is_close_unsent = True
        if isinstance(method, BasicPublish) and channel.is_confirming:
            channel.number_publish(is_sent=False)

    def _request(self, step: CommandSent, channel: PlayedChannel, method: Method) -> None:
        """Send any other client command, and note the request or consumer that it begins."""
        if isinstance(method, TxCommit | TxRollback) and channel.is_unknown and not channel.is_transactional:
            self._send(channel.number, TxSelect())
            channel.is_quiet = True
        channel.is_transactional |= isinstance(method, TxSelect | TxCommit | TxRollback)
        if isinstance(method, ConfirmSelect) and not channel.is_confirming:
            channel.is_confirming = True
        consumer = self._consumer(channel, method) if isinstance(method, BasicConsume) else None
        if isinstance(method, BasicCancel) and method.consumer_tag in channel.consumers:
            channel.consumers[method.consumer_tag].is_ending = True
        if method.name in REPLIES and not getattr(method, "no_wait", False):
            channel.note_request(method, was_sent=True).consumer = consumer
        elif consumer is not None:
            channel.consumers[consumer.recorded_tag] = channel.live_consumers[consumer.recorded_tag] = consumer
        elif method.name == "queue.declare":
            channel.last_queue = getattr(method, "queue", "") or channel.last_queue
        self._send_as(step, method)

    def _await_crossing(
        self, step: CommandSent, channel: PlayedChannel, method: BasicCancel, ahead: Ahead
    ) -> float | None:
        """Return until when to wait for deliveries that crossed this basic.cancel in the recording.

        The recorded broker had sent them before it received the cancel; if that is sent too soon, they never come.
        """
        consumer = channel.consumers.get(method.consumer_tag)
        if consumer is None or consumer.queue in self._in_vain:
            return None
        count = _deliveries_before_answer(ahead, step.stream, step.channel)
        if not count or self._board.has_unmatched(consumer.queue, count):
            return None
        until = self._awaited.patience(step, self._now, "")
        if until is None:
            self._in_vain.add(consumer.queue)
        return until

    def _consumer(self, channel: PlayedChannel, method: BasicConsume) -> PlayedConsumer:
        queue = self._queue_key(channel, method.queue) or f"{self.stream}/{channel.number}/{method.consumer_tag}"
        return PlayedConsumer(queue, method.consumer_tag, no_ack=method.no_ack)

    def _queue_key(self, channel: PlayedChannel, name: str) -> str:
        queue = channel.queue_of(name)
        return f"{self._virtual_host}\0{queue}" if queue else ""

    def _publish(self, step: CommandSent, channel: PlayedChannel) -> float | None:
        is_held = self._live.is_blocked or channel.is_stopped
        if is_held and not self._ignores_block:
            until = self._awaited.patience(step, self._now, "")
            if until is not None:
                return until
            after = f"after {self._awaited.timeout:g} s, though the broker had blocked them"
            self._result.note(f"{self.connection}: publishes went on {after}")
        self._ignores_block = is_held
        self._result.padded += any(frame.lost for frame in step.command.frames)
        if channel.is_confirming:
            channel.number_publish(is_sent=True)
        self._send_as(step, step.command.method)
        return None

    def _settle(self, step: CommandSent, channel: PlayedChannel, method: BasicAck | BasicNack | BasicReject) -> None:
        """Settle the live deliveries that stand for those that the recorded client settled."""
        tag, multiple = method.delivery_tag, getattr(method, "multiple", False)
        if multiple and tag == 0:
            self._settle_all(step, channel, method)
            return
        if (channel.has_unwanted or self._is_joined or self._is_lossy) and tag not in channel.recorded_open:
            if not channel.has_unwanted:
                self._result.unplayed(step, "the delivery that it settles is not in the capture")
            return
        tags = [each for each in channel.recorded_open if each <= tag] if multiple else [tag]
        if tag not in channel.recorded_open and not (multiple and tags):
            if tag in channel.live_open or tag <= channel.last_live_tag:
                tag += channel.last_live_tag  # an unknown tag, like the recorded one
            self._send_as(step, msgspec.structs.replace(method, delivery_tag=tag))
            return
        found = self._settled(channel, tags)
        if not found:
            self._result.unplayed(step, "the delivery that it settles did not come, or is over")
            return
        self._result.sent += 1
        self._settle_live(channel, method, found)

    def _settle_all(
        self, step: CommandSent, channel: PlayedChannel, method: BasicAck | BasicNack | BasicReject
    ) -> None:
        """Settle the counterparts of all open recorded deliveries, but no other live ones."""
        found = self._settled(channel, list(channel.recorded_open))
        here = [each for each in found if each.holder is self and each.channel == channel.number]
        if len(here) == len(found) == len(channel.live_open):
            for delivery in found:
                delivery.is_open = False
            channel.live_open.clear()
            self._send_as(step, method)
            return
        self._result.sent += 1
        self._settle_live(channel, method, found)

    def _settled(self, channel: PlayedChannel, tags: list[int]) -> list[LiveDelivery]:
        """Remove these recorded deliveries, and return their live counterparts that are open."""
        deliveries = [channel.recorded_open.pop(each, None) for each in tags]
        return [each for each in deliveries if each is not None and each.is_open]

    def _settle_live(
        self, channel: PlayedChannel, method: BasicAck | BasicNack | BasicReject, found: list[LiveDelivery]
    ) -> None:
        """Settle live deliveries: by one command if it settles exactly these, else each by a separate one."""
        multiple = getattr(method, "multiple", False)
        own = sorted(each.tag for each in found if each.holder is self and each.channel == channel.number)
        covered = [each for each in channel.live_open if own and each <= own[-1]]
        if multiple and len(own) == len(found) and sorted(covered) == own:
            for each in found:
                each.is_open = False
            for each_tag in covered:
                channel.live_open.pop(each_tag).is_open = False
            self._send(channel.number, msgspec.structs.replace(method, delivery_tag=own[-1]))
            return
        for each in found:
            single = msgspec.structs.replace(method, multiple=False) if multiple else method
            each.holder.settle(each, single)

    # --- sending

    def _send_as(self, step: CommandSent, method: Method) -> None:
        """Send a recorded command, whose method may have been changed, with the live names."""
        command = step.command
        if method is not command.method:
            command = command.altered(method=method)
        live = self._names.live(command)
        if live is not step.command:
            self._result.sent_as(step, live, self._now_ns)
        limit = self._live.frame_max
        frames = live.frames
        is_as_recorded = live is step.command and not (
            limit and any(len(frame.raw) > max(limit, OVERHEAD) for frame in frames)
        )
        self._result.sent += 1
        self._write_frames(b"".join([frame.raw for frame in frames]) if is_as_recorded else live.encode(limit))

    def _send_raw(self, step: CommandSent) -> None:
        """Send a recorded command that violates the protocol, unchanged."""
        self._is_irregular = True
        self._result.sent += 1
        self._write(b"".join([frame.raw for frame in step.command.frames]), has_secrets=False)


def _next_answer(ahead: Ahead, stream: int, channel: int) -> CommandSent | ConnectionEnded | None:
    """Return the next command of the broker on a channel, or the end of its connection; None if neither is read yet."""
    for step in ahead.of_broker(stream):
        if isinstance(step, ConnectionEnded):
            return step
        if isinstance(step, CommandSent):
            is_close = step.channel == 0 and step.command.index == ConnectionClose.index
            if step.channel == channel or is_close:
                return step
    return None


def _deliveries_before_answer(ahead: Ahead, stream: int, channel: int) -> int:
    """Count how many basic.deliver the broker sends next on a channel before it sends something else there."""
    count = 0
    with suppress(NotReadYet):
        for step in ahead.of_broker(stream):
            if isinstance(step, CommandSent) and step.channel == channel:
                if step.command.index != BasicDeliver.index:
                    return count
                count += 1
    return 0
