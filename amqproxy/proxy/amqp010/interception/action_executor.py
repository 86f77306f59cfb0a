"""Execution of the actions that 0-10 channels yield."""

from __future__ import annotations

from amqproxy.amqp010.domains import Track
from amqproxy.amqp010.errors import FramingError, IllegalArgument, ProtocolError, Scope
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp091.errors import ProtocolError as ProtocolError091
from amqproxy.amqp091.errors import Scope as Scope091
from amqproxy.conversion.amqp010.command_view import view_channel
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010.interception.actions import Forget, Insert, Reopen, Resume, Send, SendOwn, Take, Tell
from amqproxy.proxy.amqp010.interception.channel_interceptor import ChannelInterceptor
from amqproxy.proxy.amqp010.interception.channel_table import ChannelTable
from amqproxy.proxy.amqp010.interception.evaluation import Amqp010Evaluation
from amqproxy.proxy.amqp010.interception.known_exchanges import KnownExchanges
from amqproxy.proxy.amqp010.interception.legs import Legs
from amqproxy.proxy.amqp010.interception.own_commands import OwnCommands
from amqproxy.proxy.amqp010.interception.path import Cause, Path, Rest
from amqproxy.proxy.amqp010.interception.session_memory import SessionMemory
from amqproxy.proxy.interception.action_executor import ActionExecutor
from amqproxy.proxy.interception.actions import CloseChannel, CloseConnection, Decide, Reply, ShowToTaps
from amqproxy.proxy.interception.delayed_commands import DelayedCommands
from amqproxy.rules.verdict import Close, Verdict

Delayed010 = DelayedCommands[ChannelInterceptor, Path]


class Amqp010ActionExecutor(ActionExecutor[ChannelInterceptor, Path, Amqp010Evaluation]):
    """Executor of the actions that the channels of one 0-10 connection yield."""

    ERROR = ProtocolError

    def __init__(
        self,
        legs: Legs,
        table: ChannelTable,
        delayed: Delayed010,
        evaluation: Amqp010Evaluation,
        exchanges: KnownExchanges,
        memory: SessionMemory,
    ) -> None:
        super().__init__(delayed, evaluation)
        self._legs = legs
        self._table = table
        self._exchanges = exchanges
        self._memory = memory
        self._own = OwnCommands(legs)

    # --- frames and commands

    def process(self, channel: ChannelInterceptor, path: Path, frame: Frame, position: int) -> None:
        """Process a frame before which nothing is queued. A session error ends only the session."""
        try:
            try:
                self.do(channel, channel.process(path, frame, position))
            except ProtocolError091 as error:  # such as a name that is not UTF-8
                kind = IllegalArgument if frame.track == Track.COMMAND else FramingError
                raise kind(f"rules cannot read it: {error.text}") from None
        except ProtocolError as error:
            if error.scope is Scope.CONNECTION:
                raise
            path.take_gathered()
            path.rest = Rest.BEGINS if frame.ends_assembly else Rest.IS_SWALLOWED
            close = Close(Scope091.CHANNEL, int(error.code), error.reply_text)
            self._close_channel(channel, CloseChannel(Cause(path.position), close))

    def _take(self, channel: ChannelInterceptor, action: Take) -> None:
        self.process(channel, action.path, action.frame, action.position)

    def _verdict(self, sender: Peer, action: Decide) -> Verdict:
        return self._evaluation.verdict(sender, action.command, action.received.assembly)

    def _send(self, channel: ChannelInterceptor, action: Send) -> None:
        path = channel.directions[action.sender]
        self._legs.send(path, action.frames, action.note, is_shown=action.is_shown, damage=action.damage)
        while path.put_off and not path.is_mid:
            self.do(channel, path.put_off.popleft())

    def _send_own(self, channel: ChannelInterceptor, action: SendOwn) -> None:
        self._legs.send_own_assembly(action.to, action.assembly)

    def _reply(self, channel: ChannelInterceptor, action: Reply) -> None:
        self._legs.send_own(action.to, channel.number, action.method)

    def _insert(self, channel: ChannelInterceptor, action: Insert) -> None:
        if action.after > 0:
            now = (Insert(action.to, action.assembly),)
            self._delayed.at(action.after, action.to.other, channel, lambda: now)
        elif channel.closing is None and not self.is_over and self._table.has(channel):
            self.do(channel, self._own.insert(channel, action.to, action.assembly))

    def _tell(self, channel: ChannelInterceptor, action: Tell) -> None:
        self._legs.met(action.sender, channel.number, action.method)

    def _show_to_taps(self, channel: ChannelInterceptor, action: ShowToTaps) -> None:
        self._legs.show(action.sender, action.frames, action.note, action.position)

    # --- sessions

    def _resume(self, channel: ChannelInterceptor, action: Resume) -> None:
        self._delayed.resume(channel, action.path)

    def _close_channel(self, channel: ChannelInterceptor, action: CloseChannel) -> None:
        if not self.is_over:
            super()._close_channel(channel, action)

    def _reopen(self, channel: ChannelInterceptor, action: Reopen) -> None:
        queue = channel.reopening
        queue.extend(channel.directions[CLIENT].take_queue())  # all of it is charged to the load already
        self._forget(channel, Forget())
        self._exchanges.forget(channel.number)
        if queue:
            following = self._table.channel(channel.number)
            following.directions[CLIENT].queue = queue
            self._begin_next(following)

    def _forget(self, channel: ChannelInterceptor, action: Forget) -> None:
        if not self._table.has(channel):
            return
        del self._table.by_number[channel.number]
        path = channel.directions[CLIENT]
        if not path.has_detached and action.ended_by is not CLIENT:  # frames up to the next attach are of this session
            path = path.stale()
            self._delayed.drop(channel.directions[CLIENT])
        self._delayed.drop(channel.directions[SERVER])
        self._exchanges.leave(channel.number)
        channel.destinations.clear()
        self._memory.end(channel)
        self._evaluation.evaluator.channel_closed(view_channel(channel.number))
        if path.is_empty:
            self._delayed.drop(path)
        else:
            path.has_detached = False
            following = self._table.channel(channel.number)
            following.directions[CLIENT] = path
            self._begin_next(following)

    def _begin_next(self, channel: ChannelInterceptor) -> None:
        """Process the frames with which the client has begun the next session of a channel."""
        self._delayed.move(channel.directions[CLIENT], channel)
        self._memory.name(channel, self._legs.session(CLIENT, channel.number))

    def _close_connection(self, channel: ChannelInterceptor, action: CloseConnection) -> None:
        super()._close_connection(channel, action)
        self._legs.is_over = True


Amqp010ActionExecutor.DONE_BY = {
    **ActionExecutor.DONE_BY,
    Take: Amqp010ActionExecutor._take,
    Send: Amqp010ActionExecutor._send,
    SendOwn: Amqp010ActionExecutor._send_own,
    Reply: Amqp010ActionExecutor._reply,
    Insert: Amqp010ActionExecutor._insert,
    Tell: Amqp010ActionExecutor._tell,
    ShowToTaps: Amqp010ActionExecutor._show_to_taps,
    Resume: Amqp010ActionExecutor._resume,
    CloseChannel: Amqp010ActionExecutor._close_channel,
    Reopen: Amqp010ActionExecutor._reopen,
    Forget: Amqp010ActionExecutor._forget,
}
