"""Carries out the actions that channels yield."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import METHOD, Frame
from amqproxy.amqp091.methods import BY_INDEX, BasicPublish, ChannelClose, ChannelCloseOk, ChannelOpen
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.proxy.amqp091.interception.actions import (
    Action,
    CloseChannel,
    CloseConnection,
    Decide,
    Drop,
    Forget,
    Insert,
    LogVerdict,
    Postpone,
    Reply,
    Send,
    SendDamaged,
    ShowToTaps,
    Wait,
    Watch,
)
from amqproxy.proxy.amqp091.interception.channel_direction import ChannelDirection
from amqproxy.proxy.amqp091.interception.channel_interceptor import ChannelInterceptor
from amqproxy.proxy.amqp091.interception.channel_owner import Actions
from amqproxy.proxy.amqp091.interception.channel_table import ChannelTable
from amqproxy.proxy.amqp091.interception.evaluation import Evaluation
from amqproxy.proxy.amqp091.interception.leg_states import LegStates
from amqproxy.proxy.interception.delayed_commands import DelayedCommands
from amqproxy.proxy.interception.effects import ConnectionRefusal, InterceptorEffects
from amqproxy.proxy.interception.queued_bytes import QueuedBytes, cost_of_own
from amqproxy.rules.verdict import Insertion, Verdict
from amqproxy.taps.note import NOTHING, Note

Delayed091 = DelayedCommands[ChannelInterceptor, ChannelDirection]

MAX_POSTPONED = 1.0
"""Seconds after which a command that others were to overtake goes on, though they did not come."""


class ActionExecutor:
    """Does what the channels of one connection want done.

    `effects` collects what rules want besides; `refusal` is set when one wants the connection closed.
    """

    def __init__(
        self,
        legs: LegStates,
        table: ChannelTable,
        delayed: Delayed091,
        evaluation: Evaluation,
        loads: Mapping[Peer, QueuedBytes],
    ) -> None:
        self._legs = legs
        self._table = table
        self._delayed = delayed
        self._evaluation = evaluation
        self._loads = loads
        self.effects = InterceptorEffects()
        self.refusal: ConnectionRefusal | None = None

    def take_effects(self) -> InterceptorEffects:
        """What rules want besides, since it was taken last."""
        effects, self.effects = self.effects, InterceptorEffects()
        effects.failed, self._evaluation.failed = self._evaluation.failed, []
        return effects

    def do(self, channel: ChannelInterceptor, actions: Actions) -> None:
        """Do what a channel wants done, one after the other."""
        for action in actions:
            _DO[type(action)](self, channel, action)

    def show(self, sender: Peer, frame: Frame) -> bool:
        """Show a frame to the leg that it goes out on; False when it need not go, since that is closing."""
        if frame.index == ChannelClose.index:
            self._keep_rest(sender.other, frame.channel)
        is_live = self._legs.show(sender, frame)
        if frame.index == ChannelOpen.index and is_live:
            channel = self._table.by_number.get(frame.channel)
            if channel is not None and channel.is_watched:
                self._table.watch_contents(channel)  # the broker's side of the channel has been opened only now
        return is_live

    def _keep_rest(self, sender: Peer, number: int) -> None:
        """Note whether a content of `sender` is under way, whose channel the other peer closes: its rest must go on."""
        content_state = self._legs.readers[sender].content_states.get(number)
        if content_state is None or content_state.expects == METHOD:
            return
        channel = self._table.channel(number)
        self._table.watch(channel)
        direction = channel.directions[sender]
        if not direction.is_mid:
            self._drop(channel, Drop(direction))

    def _decide(self, channel: ChannelInterceptor, action: Decide) -> None:
        direction, command = action.direction, action.command
        self.carry_out(channel, direction, command, self._evaluation.verdict(direction.sender, command))

    def carry_out(
        self, channel: ChannelInterceptor, direction: ChannelDirection, command: Command, verdict: Verdict
    ) -> None:
        """Have a channel carry a verdict out, and what it wants done besides."""
        self.effects.add(direction.sender, command, verdict)
        self.do(channel, channel.carry_out(direction, command, verdict))
        if command.index == BasicPublish.index and not channel.is_watched:
            sender = direction.sender
            self._evaluation.cache_passing(sender, self._legs.readers[sender], command.frames[0])

    def _wait(self, channel: ChannelInterceptor, action: Wait) -> None:
        self._delayed.wait(channel, action.direction, action.waiting)

    def _postpone(self, channel: ChannelInterceptor, action: Postpone) -> None:
        """Have a command go on in the end, though others have not overtaken it."""
        direction, postponed = action.direction, action.postponed

        def send() -> None:
            self.do(channel, channel.output.send_postponed(direction, [postponed]))

        postponed.timer = self._delayed.at(self._evaluation.now + MAX_POSTPONED, direction.sender, send)

    def _drop(self, channel: ChannelInterceptor, action: Drop) -> None:
        direction = action.direction
        rest = direction.queued_rest()
        self._delayed.drop(direction)
        if rest:
            direction.keep_rest(rest)
            self._delayed.resume(channel, direction)
        content_state = self._legs.readers[direction.sender].content_states.get(channel.number)
        if content_state is None or content_state.expects == METHOD or direction.is_mid:
            return
        current = self._legs.current
        if current is None or current[0] is not direction.sender:  # else its reader is further
            direction.swallow(content_state)

    def _insert(self, channel: ChannelInterceptor, action: Insert) -> None:
        if action.insertion.after > 0:
            self._insert_later(action.insertion)
        else:
            self._insert_now(action.insertion, action.tag, action.note)

    # --- commands of our own

    def _insert_now(self, insertion: Insertion, tag: int | None = None, note: Note = NOTHING) -> None:
        """Send a command of our own, or one that others have overtaken, to which the broker gave `tag`."""
        command, to = insertion.command, insertion.to
        number = command.channel
        if not self._legs.takes_frames(to, number):
            return  # the channel that it is for is no more
        channel = self._table.channel(number)
        self.do(channel, channel.insert(to, command, tag, note))

    def _insert_later(self, insertion: Insertion) -> None:
        """Send a command of our own in some time, unless its channel is another by then."""
        number = insertion.command.channel
        channel = self._table.channel(number)
        load, size = self._loads[insertion.to.other], cost_of_own(insertion.command)

        def insert() -> None:
            load.remove(size)
            if self._table.by_number.get(number) is channel:
                self._insert_now(insertion)

        self._delayed.at(self._evaluation.now + insertion.after, insertion.to.other, insert)
        load.add(size)

    # --- what goes out

    def _send(self, channel: ChannelInterceptor, action: Send) -> None:
        """Send frames to the peer that `sender` talks to, but for what belongs to what is closing there, or closed."""
        sender, legs = action.sender, self._legs
        to = sender.other
        is_seen = action.is_shown and self._legs.is_tapped
        for frame in action.frames:
            if legs.is_void(to, frame) or not (action.is_rest or self._passes_on(sender, frame)):
                continue
            legs.send(to, frame)
            if is_seen:
                legs.pass_to_taps(sender, frame, action.note)
            if frame.index == ChannelCloseOk.index:
                self.forget_if_closed(frame.channel)  # not before it is sent: the next channel's frames follow it

    def _passes_on(self, sender: Peer, frame: Frame) -> bool:
        """Show a frame to the leg that it goes out on, if that has to see it; False when it need not go."""
        # On a channel that is closing, a whole content does no harm, and one without its method would.
        return self.show(sender, frame) or frame.kind != METHOD or BY_INDEX[frame.index].carries_content

    def _send_damaged(self, channel: ChannelInterceptor, action: SendDamaged) -> None:
        self._legs.outputs[action.sender.other].append(action.data)

    def _reply(self, channel: ChannelInterceptor, action: Reply) -> None:
        self._legs.reply(action.to, channel.number, action.method, action.note)

    def _show_to_taps(self, channel: ChannelInterceptor, action: ShowToTaps) -> None:
        if self._legs.is_tapped:
            for frame in action.frames:
                self._legs.pass_to_taps(action.sender, frame, action.note)

    # --- a channel, or the connection, that we close

    def forget_if_closed(self, number: int) -> None:
        """Let a channel's number be used again once neither leg has the channel."""
        if not self._table.is_gone(number):
            return
        channel = self._table.by_number.pop(number, None)
        if channel is not None:
            for direction in channel.directions.values():
                self._delayed.drop(direction)
        self._evaluation.evaluator.channel_closed(number)
        if channel is not None and channel.reopening:
            following = self._table.open_next(channel)
            self._delayed.go_on(following, following.directions[CLIENT])
            self._table.watch_contents(following)

    def _close_channel(self, channel: ChannelInterceptor, action: CloseChannel) -> None:
        self.do(channel, channel.close(action.command, action.close, action.note))

    def _close_connection(self, channel: ChannelInterceptor, action: CloseConnection) -> None:
        self.refusal = ConnectionRefusal(action.close)
        self.refusal.class_id, self.refusal.method_id = action.class_and_method


_DO: dict[type[Action], Callable[[ActionExecutor, ChannelInterceptor, Any], None]] = {
    Send: ActionExecutor._send,
    Decide: ActionExecutor._decide,
    Insert: ActionExecutor._insert,
    Reply: ActionExecutor._reply,
    Wait: ActionExecutor._wait,
    Postpone: ActionExecutor._postpone,
    Drop: ActionExecutor._drop,
    ShowToTaps: ActionExecutor._show_to_taps,
    SendDamaged: ActionExecutor._send_damaged,
    CloseChannel: ActionExecutor._close_channel,
    CloseConnection: ActionExecutor._close_connection,
    Watch: lambda executor, channel, action: executor._table.watch(channel),
    Forget: lambda executor, channel, action: executor.forget_if_closed(channel.number),
    LogVerdict: lambda executor, channel, action: executor.effects.logged.append((action.level, action.text)),
}
