"""Rule evaluation for a 0-9-1 interceptor, with caches of its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from amqproxy.amqp091.channel import Channel, ChannelMode
from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.transitions import Peer
from amqproxy.proxy.amqp091.interception.channel_interceptor import ChannelInterceptor
from amqproxy.proxy.amqp091.interception.repeated_publishes import RepeatedPublishes
from amqproxy.proxy.interception.evaluation import Evaluation
from amqproxy.rules.client_info import updated_client
from amqproxy.rules.context import ChannelInfo, Client
from amqproxy.rules.engine.evaluator import RuleEvaluator
from amqproxy.rules.verdict import Stage, Verdict

_NOT_STAGED = (None, Stage.NOTHING, ChannelInfo())


class Amqp091Evaluation(Evaluation):
    """`Evaluation` of 0-9-1 frames and commands, with caches of its results.

    `agreed` are the channels in the state of the client's leg, `interceptors` those that have a `ChannelInterceptor`.
    """

    def __init__(
        self,
        evaluator: RuleEvaluator,
        client: Client,
        *,
        agreed: Mapping[int, Channel],
        interceptors: Mapping[int, ChannelInterceptor],
        readers: Iterable[FrameReader],
        random: Callable[[], float],
        time: Callable[[], float],
        body_limit: int,
    ) -> None:
        super().__init__(evaluator, client, random=random, time=time, body_limit=body_limit)
        self.repeated = RepeatedPublishes(readers)
        self._agreed = agreed
        self._interceptors = interceptors
        self._staged: tuple[Frame | None, Stage, ChannelInfo] = _NOT_STAGED
        self._last_facts: tuple[tuple[int, ChannelMode, int, int] | None, ChannelInfo] = (None, ChannelInfo())

    def begin_turn(self, now: float) -> None:
        self.now = now
        self._staged = _NOT_STAGED  # the channel's state may change between staging and evaluation

    def refresh(self) -> None:
        self.repeated.forget()
        self._staged = _NOT_STAGED

    def learn(self, method: Method) -> bool:
        """Update the client from a handshake method; return whether it has changed."""
        return self.know(updated_client(self.client, method))

    def stage(self, sender: Peer, frame: Frame) -> Stage:
        """Return the stage needed to evaluate a command. The evaluator is asked only once a frame, since it counts."""
        staged, stage, _ = self._staged
        if staged is not frame:
            facts = self.facts(frame.channel)
            stage = self.evaluator.stage(sender, frame, facts)
            self._staged = (frame, stage, facts)
        return stage

    def verdict(self, sender: Peer, command: Command) -> Verdict:
        """Return the verdict on a command of which everything its stage needs is available."""
        staged, _, facts = self._staged
        return self.evaluate(sender, command, facts if staged is command.frames[0] else self.facts(command.channel))

    def cache_passing(self, sender: Peer, reader: FrameReader, frame: Frame) -> None:
        """Tell the reader to pass publishes with this method without handing them over, if rules never change them."""
        if not self.repeated.is_known(reader, frame):
            passing = self.evaluator.passing(sender, frame, self.facts(frame.channel), self.now)
            self.repeated.learn(reader, frame, passing)

    def facts(self, number: int) -> ChannelInfo:
        state = self._agreed.get(number)
        if state is None:
            return ChannelInfo(number=number)
        channel = self._interceptors.get(number)
        unacked = 0 if channel is None or channel.tags.deliveries is None else channel.tags.deliveries.open
        key = number, state.mode, len(state.consumers), unacked
        if self._last_facts[0] != key:
            facts = ChannelInfo(
                number=number,
                is_confirming=state.mode is ChannelMode.CONFIRM,
                is_transactional=state.mode is ChannelMode.TX,
                consumers=len(state.consumers),
                unacked=unacked,
            )
            self._last_facts = key, facts
        return self._last_facts[1]
