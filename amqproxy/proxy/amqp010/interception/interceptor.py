"""The 0-10 passage with rules, which passes commands from one leg to the other.

An `Amqp010Interceptor` shows each leg's `Connection` the frames that really pass on it. Frames that no rule changes are
forwarded as the received bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from amqproxy.amqp010.command_numbering import CommandNumbering
from amqproxy.amqp010.connection import Connection
from amqproxy.amqp010.controls import ConnectionClose
from amqproxy.amqp010.domains import Track
from amqproxy.amqp010.errors import FramingError, ResourceLimitExceeded
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.methods import Method
from amqproxy.amqp091.commands import MAX_BODY
from amqproxy.peer import CLIENT, Peer
from amqproxy.proxy.amqp010.interception.action_executor import Amqp010ActionExecutor, Delayed010
from amqproxy.proxy.amqp010.interception.channel_interceptor import ChannelInterceptor
from amqproxy.proxy.amqp010.interception.channel_table import ChannelTable
from amqproxy.proxy.amqp010.interception.command_gathering import CommandGathering
from amqproxy.proxy.amqp010.interception.evaluation import Amqp010Evaluation
from amqproxy.proxy.amqp010.interception.joining import UnderWay, join_sessions
from amqproxy.proxy.amqp010.interception.known_exchanges import KnownExchanges
from amqproxy.proxy.amqp010.interception.legs import Legs
from amqproxy.proxy.amqp010.interception.path import Path, Rest, cost
from amqproxy.proxy.amqp010.interception.session_closing import SessionClosing
from amqproxy.proxy.amqp010.interception.session_memory import SessionMemory
from amqproxy.proxy.amqp010.interception.verdict_actions import VerdictActions
from amqproxy.proxy.interception.delayed_commands import DelayedCommands
from amqproxy.proxy.interception.interceptor import Interceptor
from amqproxy.proxy.memory_budget import MemoryShare
from amqproxy.rules.context import Client
from amqproxy.rules.engine.evaluator import RuleEvaluator
from amqproxy.taps.metering.amqp010.meter import AttachmentMeter


class Amqp010Interceptor(Interceptor[ChannelInterceptor, Path]):
    """An `Interceptor` of the frames of a 0-10 connection.

    `met` is called with each passed method of class connection, and with those that attach and end sessions; `saw` with
    the bytes of all frames that the client sends or is sent. Rules inspect bodies of `body_limit` bytes at most.
    `numberings` have the ids of commands, by their sender, if some have passed before.
    """

    must_read = is_followed = True

    _legs: Legs
    _evaluation: Amqp010Evaluation
    _executor: Amqp010ActionExecutor

    def __init__(
        self,
        connections: Mapping[Peer, Connection],
        evaluator: RuleEvaluator,
        client: Client,
        *,
        random: Callable[[], float],
        time: Callable[[], float],
        met: Callable[[Peer, int, Method], None] = lambda sender, channel, method: None,
        saw: Callable[[Peer, bytes], None] = lambda sender, data: None,
        is_tapped: bool = False,
        share: MemoryShare | None = None,
        body_limit: int = MAX_BODY,
        numberings: Mapping[Peer, CommandNumbering] | None = None,
    ) -> None:
        super().__init__(connections, share)
        evaluation = Amqp010Evaluation(
            evaluator, client, connections[CLIENT], random=random, time=time, body_limit=body_limit
        )
        exchanges = KnownExchanges(self.loads[CLIENT])
        memory = SessionMemory(self.share)
        legs = Legs(connections, met, saw, is_tapped=is_tapped, numberings=numberings)
        self._closing = SessionClosing(connections)
        verdicts = VerdictActions(legs, evaluation, exchanges)
        gathering = CommandGathering(evaluation, exchanges, verdicts, self._closing, memory)
        self._legs = legs
        self._memory = memory
        self._evaluation = evaluation
        self._table = ChannelTable(self.loads, gathering, memory)
        self._delayed: Delayed010 = DelayedCommands(ResourceLimitExceeded)
        self._executor = Amqp010ActionExecutor(legs, self._table, self._delayed, evaluation, exchanges, memory)
        self._closes: dict[Peer, list[tuple[Frame, int]]] = {}
        """For each peer whose connection.close waits for its earlier frames: the close, and the controls after it."""

    # --- state

    def _channel(self, number: int) -> ChannelInterceptor:
        return self._table.channel(number)

    def _leaves_room(self) -> bool:
        """Whether queued frames will be forwarded later; other memory stays charged until the connection ends."""
        delayed = self._delayed
        if delayed.waiting or delayed.resuming or delayed.paused or self._closes:
            return True
        return any(channel.reopening for channel in self._table.by_number.values())

    def join(self, under_way: UnderWay, metered: Callable[[int], AttachmentMeter | None]) -> None:
        """Start intercepting a connection on which frames have passed unseen: see `join_sessions`.

        On each channel, rules apply from the next control and command on; those `under_way` are completed unchanged.
        """
        join_sessions(self.connections, self.numberings, under_way, metered)
        for sender, tracks in under_way.items():
            for number, track in tracks:
                path = self._channel(number).directions[sender]
                if track == Track.CONTROL:
                    path.passes_control = True
                else:
                    path.rest, path.is_mid = Rest.PASSES, True
                    path.position = self.numberings[sender].current(number) or 0

    @property
    def numberings(self) -> Mapping[Peer, CommandNumbering]:
        """The ids of commands, by their sender."""
        return self._legs.numberings

    @property
    def is_transparent(self) -> bool:
        """Whether traffic would continue unchanged without the interceptor, if there were no rules."""
        return (
            not self.is_over
            and not (self._closing.is_awaited or self._closes)
            and self._delayed.is_idle
            and self._legs.is_transparent
            and all(channel.is_transparent for channel in self._table.by_number.values())
        )

    def ask_for_frames(self) -> None:
        """Keep the subscription: the readers hand over all frames, since commands are gathered whole."""

    # --- input and output

    def take(self, sender: Peer, frames: list[Frame], now: float) -> None:
        self._begin_turn(now)
        if sender is CLIENT:
            self._legs.count(CLIENT, frames)
        for frame in frames:
            if self.is_over:
                return
            self._take(sender, frame)
        self._end_turn()

    def unshown_from(self, number: int) -> float | None:
        """Return the position of the client's first publish that waits on a channel, as `Path.unshown_from` does."""
        channel = self._table.by_number.get(number)
        if channel is None:
            return math.inf
        return None if channel.reopening else channel.directions[CLIENT].unshown_from()

    def end(self) -> None:
        self._delayed.clear()
        super().end()
        self._closes.clear()
        self._table.by_number.clear()

    # --- one frame

    def _take(self, sender: Peer, frame: Frame) -> None:
        if frame.channel and frame.channel not in self.connections[sender].channels:
            self._memory.add_channel()
        channel = self._channel(frame.channel)
        path = channel.directions[sender]
        position = 0
        if frame.track == Track.COMMAND and frame.begins_assembly:
            position = self._legs.next_position(sender, sender, frame.channel) or 0
        self._legs.receive(sender, sender, frame)
        if not channel.is_named and frame.track == Track.CONTROL and frame.ends_assembly:
            self._memory.name(channel, self._legs.session(CLIENT, channel.number))
        if self.gate is not None and not self.gate(sender, frame):
            return
        path.keep(frame)
        if path.kept[frame.track] and self.share.is_over:
            raise FramingError("there is no memory now for the rest of a control or a command")
        if not frame.channel and self._awaits_others(sender, frame, position):
            return
        if path.is_held_up and not channel.is_overtaken_by(path, frame):
            path.enqueue(frame, position)
        else:
            self._executor.process(channel, path, frame, position)

    def _awaits_others(self, sender: Peer, frame: Frame, position: int) -> bool:
        """Queue a connection.close, and its sender's later controls, until all earlier frames have been forwarded."""
        if frame.track != Track.CONTROL:
            return False
        if frame.index == ConnectionClose.index and sender not in self._closes:
            self._delayed.release_all(sender)
            self._executor.go_on(self._delayed.go_on_releasing())
            if self.is_over or not self._delayed.holds_up(sender):
                return self.is_over
            self._closes[sender] = []
        if sender not in self._closes:
            return False
        self._closes[sender].append((frame, position))
        self.loads[sender].add(cost([frame]))
        return True

    def _close_connections(self) -> None:
        if self.is_over:
            return
        for sender in [sender for sender in self._closes if not self._delayed.holds_up(sender)]:
            channel = self._channel(0)
            for frame, position in self._closes.pop(sender):
                self.loads[sender].remove(cost([frame]))
                if self._executor.is_over:  # by the control before this one
                    continue
                with self._executor.blaming(sender):
                    self._executor.process(channel, channel.directions[sender], frame, position)
