"""Transcripts in the dialect of `tests.transcripts.lines`, played to an `Interceptor`.

Frames are sent (`>>` by the client, `<<` by the broker) and received (`=>` by the broker, `<=` by the client), time
passes (`--`), and the connection is to be closed with a code and a text (`!! 320 the text`). What is received is
written behind all that was sent before it; by then, neither peer has received anything else. The connection and
channels 1 and 2 are open. Every transcript is played a line at a time, and byte by byte.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import PreconditionFailed
from amqproxy.amqp091.frame import BODY, METHOD, Frame, every_frame
from amqproxy.amqp091.frame import HEADER as HEADER_FRAME
from amqproxy.amqp091.methods import BY_INDEX, BasicAck, BasicNack
from amqproxy.amqp091.pass_cache import Credit
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp091.interception.interceptor import Amqp091Interceptor
from amqproxy.proxy.memory_budget import MemoryBudget, MemoryShare
from amqproxy.rules.context import ChannelInfo, Client, CommandContext
from amqproxy.rules.verdict import Stage, Verdict
from tests.amqp091.tracking import TrackingConnection
from tests.transcripts.lines import parse

PRELUDE = """
    << connection.start
    >> connection.start-ok
    << connection.tune channel_max=2047 frame_max=131072 heartbeat=60
    >> connection.tune-ok channel_max=2047 frame_max=131072 heartbeat=60
    >> connection.open
    << connection.open-ok
    >> 1 channel.open
    << 1 channel.open-ok
    >> 2 channel.open
    << 2 channel.open-ok
"""

CONFIRMS = frozenset({BasicAck.index, BasicNack.index})

Decide = Callable[[CommandContext], Verdict]


class ScriptedEvaluator:
    """Has a function decide about the methods that are named, once so much of them has come."""

    def __init__(self, decide: Decide, methods: Iterable[str], stage: Stage = Stage.BODY) -> None:
        self._decide = decide
        self._methods = frozenset(methods)
        self._stage = stage
        self.is_asleep = False
        self.passed = 0
        self.closed: list[int] = []
        self.known: list[Client] = []

    def stage(self, sender: Peer, frame: Frame, channel: ChannelInfo) -> Stage:
        return self._stage if name_of(frame) in self._methods else Stage.NOTHING

    def passing(self, sender: Peer, frame: Frame, channel: ChannelInfo, now: float) -> Any:
        return self if self.stage(sender, frame, channel) is Stage.NOTHING else self.spare(frame)

    def spare(self, frame: Frame) -> Any:
        """What becomes of what is evaluated, from now on, without being evaluated."""
        return None

    method = None
    allowances: tuple[Credit, ...] = ()
    if_plain: bool = False
    largest = -1

    def count(self, times: int = 1) -> None:
        self.passed += times

    def wants(self, sender: Peer) -> bytes:
        return bytes(cls.name in self._methods for cls in BY_INDEX)

    reads_unacked = False
    drops_confirms = False

    def wants_all(self, sender: Peer) -> bool:
        return False

    def evaluate(self, context: CommandContext) -> Verdict:
        return Verdict(command=context.command) if self.is_asleep else self._decide(context)

    def know(self, client: Client) -> None:
        self.known.append(client)

    def channel_closed(self, number: int) -> None:
        self.closed.append(number)


def name_of(frame: Frame) -> str:
    return BY_INDEX[frame.index].name if frame.kind == METHOD else "heartbeat"


class Assembler:
    """What a peer makes of the frames that it gets: whole commands only, also on a channel that is closing.

    A real one ends the connection for anything else, whatever its channels are at.
    """

    def __init__(self) -> None:
        self._left: dict[int, int | None] = {}
        """By channel, how much of a body is to come; None where its header is."""

    def take(self, frame: Frame) -> None:
        number = frame.channel
        if frame.kind == METHOD:
            assert number not in self._left, f"{name_of(frame)} in the middle of a content"
            if BY_INDEX[frame.index].carries_content:
                self._left[number] = None
        elif frame.kind == HEADER_FRAME:
            assert self._left.get(number, 0) is None, f"a header where none is due on channel {number}"
            self._left[number] = frame.body_size
        elif frame.kind == BODY:
            left = self._left.get(number)
            assert left is not None, f"a body where none is due on channel {number}"
            assert left >= frame.size
            self._left[number] = left - frame.size
        if self._left.get(number) == 0:
            del self._left[number]


class Water:
    """An interceptor between two legs, and what would watch each of them from outside."""

    def __init__(self, evaluator: Any, *, memory: MemoryBudget | None = None) -> None:
        self.now = 100.0
        self.assemblers = {peer: Assembler() for peer in Peer}
        legs = {peer: Connection(initial_frame_max=131072) for peer in Peer}
        self.watchers = {peer: TrackingConnection(initial_frame_max=131072) for peer in Peer}
        self.interceptor = Amqp091Interceptor(
            legs,
            evaluator,
            Client(),
            random=random.Random(1).random,
            time=lambda: 0.0,
            share=None if memory is None else MemoryShare(memory),
        )
        for peer in Peer:
            legs[peer].receive_header(CLIENT, HEADER)
            self.watchers[peer].receive_header(CLIENT, HEADER)

    def say(self, sender: Peer, octets: bytes) -> dict[Peer, bytes]:
        """What both peers hear when one says something."""
        reader = self.interceptor.connections[sender].readers[sender]
        frames = reader.feed(octets)
        assert reader.error is None
        self.note(sender, bytes(reader.taken))
        self.interceptor.take(sender, frames, self.now)
        return self.hear()

    def note(self, sender: Peer, octets: bytes) -> None:
        """Whole frames that one says, but have not arrived yet."""
        for frame in every_frame(octets, 0):
            with suppress(PreconditionFailed):  # what a peer does wrong is for the other to answer
                self.watchers[sender].feed(sender, frame.raw)

    def carry(self, sender: Peer, octets: bytes) -> dict[Peer, bytes]:
        """What both peers hear when that arrives."""
        frames = self.interceptor.readers[sender].feed(octets)
        self.interceptor.take(sender, frames, self.now)
        return self.hear()

    def hear(self) -> dict[Peer, bytes]:
        heard = {peer: bytes(self.interceptor.take_output(peer)) for peer in Peer}
        for peer, octets in heard.items():
            for frame in every_frame(octets, 0):
                self.assemblers[peer].take(frame)
                self.note_heard(peer, frame)
        return heard

    def note_heard(self, peer: Peer, frame: Frame) -> None:
        """Raises if it may not come.

        A confirm of several may name one that was confirmed before: what the broker confirms with all before it stands
        for those from before the legs differed too, and of these nothing is known.
        """
        try:
            self.watchers[peer].feed(peer.other, frame.raw)
        except PreconditionFailed:
            if peer is not CLIENT or frame.index not in CONFIRMS or not frame.method.multiple:
                raise

    def wait(self, seconds: float) -> dict[Peer, bytes]:
        self.now += seconds
        self.interceptor.tick(self.now)
        return self.hear()


def opened(evaluator: ScriptedEvaluator, *, of: type[Water] = Water, **options: Any) -> Water:
    water = of(evaluator, **options)
    evaluator.is_asleep = True
    for line in PRELUDE.strip().splitlines():
        sender, octets = read(line)
        assert water.say(sender, octets)[sender.other] == octets
    evaluator.is_asleep = False
    return water


def read(line: str) -> tuple[Peer, bytes]:
    """The peer that sends or receives this frame, and its bytes."""
    (parsed,) = parse(line)
    return parsed.peer, parsed.data


def play(transcript: str, decide: Decide, *methods: str, stage: Stage = Stage.BODY, **known: bool) -> Water:
    """Play it line by line, then byte by byte; the interceptor afterwards.

    `known` are attributes of the evaluator: `reads_unacked`, `drops_confirms`.
    """

    def evaluator() -> ScriptedEvaluator:
        made = ScriptedEvaluator(decide, methods, stage)
        for name, value in known.items():
            setattr(made, name, value)
        return made

    _play(transcript, evaluator(), size=1)
    return _play(transcript, evaluator())


def _play(transcript: str, evaluator: ScriptedEvaluator, size: int = 1 << 20) -> Water:
    water = opened(evaluator)
    heard: dict[Peer, bytes] = {CLIENT: b"", SERVER: b""}
    has_received = False
    for line in parse(transcript):
        is_received = line.mark in ("=>", "<=")
        if has_received and not is_received:
            assert heard == {CLIENT: b"", SERVER: b""}, f"before '{line}': {shown(heard)}"
        has_received = is_received
        if line.mark in (">>", "<<"):
            for start in range(0, len(line.data), size):
                for peer, more in water.say(line.peer, line.data[start : start + size]).items():
                    heard[peer] += more
        elif is_received:
            assert heard[line.peer].startswith(line.data), f"'{line}': {shown(heard)}"
            heard[line.peer] = heard[line.peer][len(line.data) :]
        elif line.mark == "--":
            for peer, more in water.wait(float(line.text)).items():
                heard[peer] += more
        else:
            refusal = water.interceptor.refusal
            assert refusal is not None
            assert f"{refusal.code} {refusal.reply_text}" == line.text
    assert heard == {CLIENT: b"", SERVER: b""}, shown(heard)
    return water


def shown(heard: dict[Peer, bytes]) -> str:
    return ", ".join(
        f"the {peer} heard {[frame.method if frame.kind == METHOD else frame.raw for frame in every_frame(octets, 0)]}"
        for peer, octets in heard.items()
        if octets
    )
