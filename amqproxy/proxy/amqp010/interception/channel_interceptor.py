"""One 0-10 channel between the legs: it takes frames and verdicts, and yields actions."""

from __future__ import annotations

from amqproxy.amqp010.controls import ConnectionClose, SessionAttach
from amqproxy.amqp010.frame import Frame
from amqproxy.peer import Peer
from amqproxy.proxy.amqp010.interception.actions import Take
from amqproxy.proxy.amqp010.interception.command_gathering import CommandGathering
from amqproxy.proxy.amqp010.interception.path import Cause, ChannelPaths, Path, Pending
from amqproxy.proxy.interception.actions import Actions
from amqproxy.proxy.interception.queued_bytes import QueuedBytes
from amqproxy.proxy.interception.waiting_command import WaitingCommand
from amqproxy.rules.verdict import Close, Verdict
from amqproxy.taps.note import Note


class ChannelInterceptor(ChannelPaths):
    """A channel with its processing of commands; `gathering` is shared by all channels of the connection."""

    __slots__ = ("_gathering",)

    def __init__(self, number: int, loads: dict[Peer, QueuedBytes], gathering: CommandGathering) -> None:
        super().__init__(number, loads)
        self._gathering = gathering

    def is_overtaken_by(self, path: Path, frame: Frame) -> bool:
        """Whether a frame need not wait for the channel's queue: connection.close is handled by the interceptor."""
        return frame.index == ConnectionClose.index or self._gathering.is_of_connection(self, path, frame)

    def process(self, path: Path, frame: Frame, position: int) -> Actions:
        """Process a frame before which nothing is queued."""
        return self._gathering.process(self, path, frame, position)

    def carry_out(self, path: Path, pending: Pending, verdict: Verdict) -> Actions:
        """Carry out a verdict on a command."""
        return self._gathering.verdicts.carry_out(self, path, pending, verdict)

    def close(self, cause: Cause | None, close: Close, note: Note) -> Actions:
        """Close the session on this channel on both legs."""
        return self._gathering.closing.close(self, cause or Cause(), close)

    # --- delayed and queued commands

    def may_go_on(self, path: Path) -> bool:
        """Whether the first queued frame may be processed."""
        return not path.is_at_pause

    def next_queued(self, path: Path) -> Actions:
        """Process the first queued frame."""
        frame, position = path.dequeue()
        if path.is_stale:
            path.is_stale = frame.index != SessionAttach.index and bool(path.queue)
            if frame.index != SessionAttach.index:
                return ()
        return (Take(path, frame, position),)

    def resume(self, path: Path, waiting: WaitingCommand) -> Actions:
        """Carry out the verdict of a delayed or held command that is due."""
        return self._gathering.verdicts.settle(self, path, waiting.received, waiting.verdict)
