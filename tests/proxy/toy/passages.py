"""What stands between the legs: without rules, and with them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import ProtocolError, ResourceError
from amqproxy.amqp091.frame import every_frame
from amqproxy.amqp091.methods import BasicDeliver, BasicPublish
from amqproxy.amqp091.properties import Properties
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.interception.action_executor import ActionExecutor
from amqproxy.proxy.interception.actions import Action, Actions, CloseChannel, CloseConnection, Decide, Reply, Wait
from amqproxy.proxy.interception.delayed_commands import DelayedCommands
from amqproxy.proxy.interception.effects import ConnectionRefusal, InterceptorFault
from amqproxy.proxy.interception.evaluation import Evaluation
from amqproxy.proxy.interception.interceptor import Interceptor
from amqproxy.proxy.interception.queued_bytes import FRAME_COST, QueuedBytes
from amqproxy.proxy.interception.waiting_command import WaitingCommand
from amqproxy.proxy.session.passage import NothingWaits
from amqproxy.rules.context import ChannelInfo, Client
from amqproxy.rules.verdict import Close, Stage, Verdict
from amqproxy.taps.note import NOTHING, Note
from tests.proxy.toy.protocol import ToyConnection, ToyFrame, line


class ToyLegs:
    """What each peer is to be sent, what taps are to see, and both connections, which are shown what passes."""

    def __init__(self, connections: Mapping[Peer, ToyConnection], met: list[Any], *, is_tapped: bool) -> None:
        self.connections = connections
        self.is_tapped = is_tapped
        self._met = met
        self._outputs = dict.fromkeys(Peer, b"")
        self._passed: dict[Peer, list[tuple[Note, list[ToyFrame]]]] = {peer: [] for peer in Peer}

    def forward(self, sender: Peer, frame: ToyFrame, note: Note = NOTHING) -> None:
        self.connections[sender.other].receive(sender, frame)
        self._outputs[sender.other] += frame.raw
        self._met.append((sender, frame))
        if self.is_tapped:
            self._passed[sender].append((note, [frame]))

    def take_output(self, to: Peer) -> bytes:
        output, self._outputs[to] = self._outputs[to], b""
        return output

    def take_passed(self, sender: Peer) -> list[tuple[Note, list[ToyFrame]]]:
        passed, self._passed[sender] = self._passed[sender], []
        return passed


class ToyPassThrough(NothingWaits):
    """All passes."""

    relays_unseen = False
    gate = None

    def __init__(self, legs: ToyLegs, client: Client) -> None:
        self.legs = legs
        self.client = client

    @property
    def is_tapped(self) -> bool:
        return self.legs.is_tapped

    @is_tapped.setter
    def is_tapped(self, is_tapped: bool) -> None:
        self.legs.is_tapped = is_tapped

    @property
    def shown_client(self) -> Client:
        return self.client

    def ask_for_frames(self) -> None: ...

    def take(self, sender: Peer, frames: list[ToyFrame], now: float) -> None:
        for frame in frames:
            self.legs.connections[sender].receive(sender, frame)
            if self.gate is None or self.gate(sender, frame):
                self.legs.forward(sender, frame)

    def take_output(self, to: Peer) -> bytes:
        return self.legs.take_output(to)

    def take_passed(self, sender: Peer) -> list[tuple[Note, list[ToyFrame]]]:
        return self.legs.take_passed(sender)

    def end(self) -> None: ...


def view(frame: ToyFrame) -> Command | None:
    """What a message is in 0-9-1; None of other lines."""
    if frame.verb not in ("PUB", "MSG") or frame.begins_body:
        return None
    where, key, *body = frame.words
    method = BasicPublish(exchange=where, routing_key=key) if frame.verb == "PUB" else BasicDeliver(where, 1)
    command = Command(frame.channel, method, Properties(), " ".join(body).encode())
    return Command.received(list(every_frame(command.encode(0), 0)))


def changed(frame: ToyFrame, command: Command) -> ToyFrame:
    method = command.method
    return line(frame.channel, frame.verb, method.exchange, method.routing_key, command.body.decode())


Received = tuple[ToyFrame, Command]


class Send(Action, frozen=True, gc=False):
    """Forward a line."""

    sender: Peer
    frame: ToyFrame
    note: Note = NOTHING


class ToyDirection:
    """What one peer sends on a channel."""

    def __init__(self, sender: Peer, load: QueuedBytes) -> None:
        self.sender = sender
        self.is_paused = self.is_mid = False
        self.queue: deque[ToyFrame] = deque()
        self.waiting: WaitingCommand | None = None
        self._load = load

    @property
    def is_waiting(self) -> bool:
        return self.waiting is not None

    @property
    def is_held(self) -> bool:
        return self.waiting is not None and self.waiting.hold is not None

    @property
    def is_held_up(self) -> bool:
        return self.is_waiting or bool(self.queue) or (self.is_paused and not self.is_mid)

    def enqueue(self, frame: ToyFrame) -> None:
        self.queue.append(frame)
        self._load.add(len(frame.raw) + FRAME_COST)

    def dequeue(self) -> ToyFrame:
        frame = self.queue.popleft()
        self._load.remove(len(frame.raw) + FRAME_COST)
        return frame

    def wait(self, waiting: WaitingCommand) -> None:
        self.waiting = waiting
        self._load.add(waiting.cost)

    def wake(self) -> WaitingCommand | None:
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            self._load.remove(waiting.cost)
        return waiting

    def clear(self) -> None:
        self.wake()
        while self.queue:
            self.dequeue()


class ToyChannel:
    """A channel between the legs."""

    def __init__(self, number: int, loads: Mapping[Peer, QueuedBytes]) -> None:
        self.number = number
        self.directions = {peer: ToyDirection(peer, loads[peer]) for peer in Peer}
        self.is_closing = False

    def take(self, direction: ToyDirection, frame: ToyFrame) -> Actions:
        if direction.is_held_up:
            direction.enqueue(frame)
            return ()
        return self.process(direction, frame)

    def process(self, direction: ToyDirection, frame: ToyFrame) -> Actions:
        if self.is_closing:
            return ()
        command = view(frame)
        direction.is_mid = frame.begins_body or frame.verb == "MORE"
        return (Send(direction.sender, frame),) if command is None else (Decide(direction, command, (frame, command)),)

    def carry_out(self, direction: ToyDirection, received: Received, verdict: Verdict) -> Actions:
        if verdict.delay or verdict.hold is not None:
            frame, command = received
            yield Wait(direction, WaitingCommand(command, verdict, len(frame.raw), received))
        else:
            yield from self._settle(direction, received, verdict)

    def _settle(self, direction: ToyDirection, received: Received, verdict: Verdict) -> Actions:
        note, (frame, command) = Note(verdict.marks), received
        if verdict.close is not None:
            yield CloseChannel(frame, verdict.close, note)
        elif verdict.command is not None:
            frame = frame if verdict.command is command else changed(frame, verdict.command)
            yield Send(direction.sender, frame, note)

    def close(self, cause: ToyFrame | None, close: Close, note: Note) -> Actions:
        if self.number == 0:
            yield CloseConnection(close)
            return
        self.is_closing = True
        yield Reply(CLIENT, line(self.number, "CLOSE", close.code, *close.text.split()))
        yield Reply(SERVER, line(self.number, "CLOSE", close.code, "closed"))

    def may_go_on(self, direction: ToyDirection) -> bool:
        return not direction.is_paused

    def next_queued(self, direction: ToyDirection) -> Actions:
        return self.process(direction, direction.dequeue())

    def resume(self, direction: ToyDirection, waiting: WaitingCommand) -> Actions:
        return self._settle(direction, waiting.received, waiting.verdict)


class ToyEvaluation(Evaluation):
    def refresh(self) -> None: ...

    def facts(self, number: int) -> ChannelInfo:
        return ChannelInfo(number=number)


class ToyExecutor(ActionExecutor[ToyChannel, ToyDirection, ToyEvaluation]):
    ERROR = ProtocolError

    def __init__(self, legs: ToyLegs, delayed: Any, evaluation: ToyEvaluation) -> None:
        super().__init__(delayed, evaluation)
        self._legs = legs

    def _verdict(self, sender: Peer, action: Decide) -> Verdict:
        facts = self._evaluation.facts(action.command.channel)
        if self._evaluation.evaluator.stage(sender, action.command.frames[0], facts) is Stage.NOTHING:
            return Verdict(command=action.command)
        return self._evaluation.evaluate(sender, action.command, facts)

    def _send(self, channel: ToyChannel, action: Send) -> None:
        self._legs.forward(action.sender, action.frame, action.note)

    def _reply(self, channel: ToyChannel, action: Reply) -> None:
        self._legs.forward(action.to.other, action.method, action.note)

    def _close_connection(self, channel: ToyChannel, action: CloseConnection) -> None:
        self.refusal = ConnectionRefusal(action.close)

    def _end_for(self, sender: Peer, error: Any) -> None:
        self.fault = InterceptorFault(sender, error)


ToyExecutor.DONE_BY = {**ActionExecutor.DONE_BY, Send: ToyExecutor._send, Reply: ToyExecutor._reply}


class ToyInterceptor(Interceptor[ToyChannel, ToyDirection]):
    """The passage with rules."""

    def __init__(self, legs: ToyLegs, evaluator: Any, client: Client, share: Any, **clocks: Any) -> None:
        super().__init__(legs.connections, share)
        self.legs = self._legs = legs
        self._evaluation = ToyEvaluation(evaluator, client, **clocks)
        self._delayed = DelayedCommands(ResourceError)
        self._executor = ToyExecutor(legs, self._delayed, self._evaluation)
        self._channels: dict[int, ToyChannel] = {}

    def ask_for_frames(self) -> None: ...

    def _channel(self, number: int) -> ToyChannel:
        return self._channels.setdefault(number, ToyChannel(number, self.loads))

    def take(self, sender: Peer, frames: Sequence[ToyFrame], now: float) -> None:
        self._begin_turn(now)
        for frame in frames:
            self.connections[sender].receive(sender, frame)
            if self.gate is None or self.gate(sender, frame):
                channel = self._channel(frame.channel)
                self._executor.do(channel, channel.take(channel.directions[sender], frame))
        self._end_turn()
