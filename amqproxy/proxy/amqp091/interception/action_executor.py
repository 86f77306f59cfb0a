"""Execution of the actions that 0-9-1 channels yield."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import FrameError, ProtocolError, Scope
from amqproxy.amqp091.frame import HEADER, METHOD, OVERHEAD, Frame
from amqproxy.amqp091.methods import BY_INDEX, BasicPublish, ChannelClose, ChannelCloseOk, ChannelOpen, ConnectionTuneOk
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp091.interception.actions import Forget, Insert, Postpone, Send, SendDamaged, Watch
from amqproxy.proxy.amqp091.interception.channel_direction import ChannelDirection
from amqproxy.proxy.amqp091.interception.channel_interceptor import ChannelInterceptor
from amqproxy.proxy.amqp091.interception.channel_table import ChannelTable
from amqproxy.proxy.amqp091.interception.evaluation import Amqp091Evaluation
from amqproxy.proxy.amqp091.interception.leg_states import LegStates
from amqproxy.proxy.interception.action_executor import ActionExecutor
from amqproxy.proxy.interception.actions import (
    Actions,
    CloseConnection,
    Decide,
    Drop,
    Reply,
    ShowToTaps,
)
from amqproxy.proxy.interception.delayed_commands import DelayedCommands
from amqproxy.proxy.interception.queued_bytes import QueuedBytes, cost_of_own
from amqproxy.rules.verdict import Close, Insertion, Verdict
from amqproxy.taps.note import NOTHING, Note

Delayed091 = DelayedCommands[ChannelInterceptor, ChannelDirection]

MAX_POSTPONED = 1.0
"""Seconds after which a postponed delivery is sent, even if it was not overtaken."""


class Amqp091ActionExecutor(ActionExecutor[ChannelInterceptor, ChannelDirection, Amqp091Evaluation]):
    """Executor of the actions that the channels of one 0-9-1 connection yield."""

    ERROR = ProtocolError

    def __init__(
        self,
        legs: LegStates,
        table: ChannelTable,
        delayed: Delayed091,
        evaluation: Amqp091Evaluation,
        loads: Mapping[Peer, QueuedBytes],
    ) -> None:
        super().__init__(delayed, evaluation)
        self._legs = legs
        self._table = table
        self._loads = loads

    def show(self, sender: Peer, frame: Frame) -> bool:
        """Show a frame to the leg that it goes out on; return false if that is closing, so that it need not be sent."""
        if frame.index == ChannelClose.index:
            self._keep_rest(sender.other, frame.channel)
        is_live = self._legs.show(sender, frame)
        if frame.index == ChannelOpen.index and is_live:
            channel = self._table.by_number.get(frame.channel)
            if channel is not None and channel.is_watched:
                self._table.watch_contents(channel)  # the channel was only now opened on the broker's side
        return is_live

    def _keep_rest(self, sender: Peer, number: int) -> None:
        """Forward the rest of a content of `sender` in progress, although the other peer closes the channel."""
        content_state = self._legs.readers[sender].content_states.get(number)
        if content_state is None or content_state.expects == METHOD:
            return
        channel = self._table.channel(number)
        self._table.watch(channel)
        direction = channel.directions[sender]
        if not direction.is_mid:
            self._drop(channel, Drop(direction))

    def _verdict(self, sender: Peer, action: Decide) -> Verdict:
        verdict = self._evaluation.verdict(sender, action.command)
        if action.command.index == ConnectionTuneOk.index and verdict.command is not None:
            return self._within_offer(verdict, verdict.command, action.command.method.frame_max)
        return verdict

    def _within_offer(self, verdict: Verdict, answer: Command, asked: int) -> Verdict:
        """Return a verdict on tune-ok in which rules have not raised frame_max above what the broker offers.

        Such a broker would end the connection of a client that has done nothing wrong.
        """
        method, offered = answer.method, self._legs.connections[SERVER].offered_frame_max
        if not 0 < asked <= offered < method.frame_max:
            return verdict
        return replace(verdict, command=answer.altered(method=replace(method, frame_max=offered)))

    def carry_out(
        self,
        channel: ChannelInterceptor,
        direction: ChannelDirection,
        command: Command,
        verdict: Verdict,
        received: Any = None,
    ) -> None:
        super().carry_out(channel, direction, command, verdict)
        if command.index == BasicPublish.index and not channel.is_watched:
            sender = direction.sender
            self._evaluation.cache_passing(sender, self._legs.readers[sender], command.frames[0])

    def _postpone(self, channel: ChannelInterceptor, action: Postpone) -> None:
        """Schedule a delivery to be sent after `MAX_POSTPONED`, if it is not overtaken until then."""
        direction, postponed = action.direction, action.postponed
        send = partial(channel.output.send_postponed, direction, [postponed])
        postponed.timer = self._delayed.at(MAX_POSTPONED, direction.sender, channel, send)

    def _drop(self, channel: ChannelInterceptor, action: Drop) -> None:
        direction = action.direction
        rest = direction.queued_rest()
        super()._drop(channel, action)
        if rest:
            direction.keep_rest(rest)
            self._delayed.resume(channel, direction)
        content_state = self._legs.readers[direction.sender].content_states.get(channel.number)
        if content_state is None or content_state.expects == METHOD or direction.is_mid:
            return
        current = self._legs.current
        if current is None or current[0] is not direction.sender:  # otherwise its reader is ahead
            direction.swallow(content_state)

    def _insert(self, channel: ChannelInterceptor, action: Insert) -> None:
        if action.insertion.after > 0:
            self._insert_later(action.insertion)
        else:
            self._insert_now(action.insertion, action.tag, action.note)

    # --- commands of the proxy

    def _insert_now(self, insertion: Insertion, tag: int | None = None, note: Note = NOTHING) -> None:
        """Send a command of the proxy at once, or an overtaken delivery, to which the broker gave `tag`."""
        command, to = insertion.command, insertion.to
        number = command.channel
        if not self._legs.takes_frames(to, number):
            return  # its channel has ended
        channel = self._table.channel(number)
        self.do(channel, channel.insert(to, command, tag, note))

    def _insert_later(self, insertion: Insertion) -> None:
        """Schedule a command of the proxy, to be dropped if its channel has ended by then."""
        command = insertion.command
        number = command.channel
        channel = self._table.channel(number)
        load, size = self._loads[insertion.to.other], cost_of_own(command)

        def insert() -> Actions:
            load.remove(size)
            is_there = self._table.by_number.get(number) is channel
            return (Insert(Insertion(insertion.to, command)),) if is_there else ()

        self._delayed.at(insertion.after, insertion.to.other, channel, insert)
        load.add(size)

    # --- output

    def _send(self, channel: ChannelInterceptor, action: Send) -> None:
        """Send frames to the peer opposite `sender`, except those of a channel or connection that is closing there."""
        sender, legs = action.sender, self._legs
        to = sender.other
        is_seen = action.is_shown and self._legs.is_tapped
        for frame in action.frames:
            if legs.is_void(to, frame) or (legs.answers is not None and legs.answers(sender, frame)):
                continue
            if not (action.is_rest or self._passes_on(sender, frame)):
                continue
            if frame.kind == HEADER and 0 < legs.limit_of_cuts(to) < frame.length() - OVERHEAD:
                self._refuse_header(channel, to, frame)
                return
            legs.send(to, frame)
            if is_seen:
                legs.pass_to_taps(sender, frame, action.note)
            if frame.index == ChannelCloseOk.index:
                self.forget_if_closed(frame.channel)  # only after sending: the next channel's frames follow it

    def _refuse_header(self, channel: ChannelInterceptor, to: Peer, header: Frame) -> None:
        """Close the connection of a client whose frames cannot hold a content header, which cannot be cut."""
        limit, first = self._legs.limit_of_cuts(to), self._legs.delivering.get(header.channel)
        message, place = "message", (0, 0)
        if first is not None:
            message = f"{first.name} with routing key '{getattr(first, 'routing_key', '')}'"
            place = (first.class_id, first.method_id)
        error = FrameError(f"header of {header.length()} bytes in a {message}, frame_max of the client is {limit}")
        self._close_connection(channel, CloseConnection(Close(Scope.CONNECTION, error.code, error.reply_text), place))

    def _passes_on(self, sender: Peer, frame: Frame) -> bool:
        """Show a frame to the leg that it goes out on, if relevant; return false if it need not be sent."""
        # On a closing channel, a whole content is harmless, but a content without its method is not.
        return self.show(sender, frame) or frame.kind != METHOD or BY_INDEX[frame.index].carries_content

    def _send_damaged(self, channel: ChannelInterceptor, action: SendDamaged) -> None:
        self._legs.outputs[action.sender.other].append(action.data)

    def _reply(self, channel: ChannelInterceptor, action: Reply) -> None:
        self._legs.reply(action.to, channel.number, action.method, action.note)

    def _show_to_taps(self, channel: ChannelInterceptor, action: ShowToTaps) -> None:
        if self._legs.is_tapped:
            for frame in action.frames:
                self._legs.pass_to_taps(action.sender, frame, action.note)

    # --- closing

    def forget_if_closed(self, number: int) -> None:
        """Free the number of a channel that has ended on both legs; open the channel that awaits this number."""
        if not self._table.is_gone(number):
            return
        channel = self._table.by_number.pop(number, None)
        self._legs.delivering.pop(number, None)
        if channel is not None:
            for direction in channel.directions.values():
                self._delayed.drop(direction)
        self._evaluation.evaluator.channel_closed(number)
        if channel is not None and channel.reopening:
            following = self._table.open_next(channel)
            self.go_on(self._delayed.go_on(following, following.directions[CLIENT]))
            self._table.watch_contents(following)


Amqp091ActionExecutor.DONE_BY = {
    **ActionExecutor.DONE_BY,
    Send: Amqp091ActionExecutor._send,
    Insert: Amqp091ActionExecutor._insert,
    Reply: Amqp091ActionExecutor._reply,
    Postpone: Amqp091ActionExecutor._postpone,
    Drop: Amqp091ActionExecutor._drop,
    ShowToTaps: Amqp091ActionExecutor._show_to_taps,
    SendDamaged: Amqp091ActionExecutor._send_damaged,
    Watch: lambda executor, channel, action: executor._table.watch(channel),
    Forget: lambda executor, channel, action: executor.forget_if_closed(channel.number),
}
