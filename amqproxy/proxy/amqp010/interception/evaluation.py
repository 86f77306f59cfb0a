"""Rule evaluation for a 0-10 interceptor."""

from __future__ import annotations

from collections.abc import Callable

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.connection import Connection
from amqproxy.amqp010.controls import ConnectionHeartbeat
from amqproxy.amqp010.domains import AcceptMode
from amqproxy.amqp010.methods import BY_INDEX
from amqproxy.amqp010.methods import Method as Method010
from amqproxy.amqp010.transaction import TransactionMode
from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicDeliver, BasicPublish
from amqproxy.conversion.amqp010.method_views import SHAPES
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.interception.evaluation import Evaluation
from amqproxy.rules.amqp010.client_info import updated_amqp010_client
from amqproxy.rules.context import ChannelInfo, Client
from amqproxy.rules.engine.evaluator import RuleEvaluator
from amqproxy.rules.verdict import Stage, Verdict


class Amqp010Evaluation(Evaluation):
    """`Evaluation` of 0-10 controls and commands; `leg` is the client's."""

    def __init__(
        self,
        evaluator: RuleEvaluator,
        client: Client,
        leg: Connection,
        *,
        random: Callable[[], float],
        time: Callable[[], float],
        body_limit: int,
    ) -> None:
        super().__init__(evaluator, client, random=random, time=time, body_limit=body_limit)
        self._leg = leg
        self._wanted = {peer: bytes(len(BY_INDEX)) for peer in Peer}
        self.refresh()

    def refresh(self) -> None:
        for peer in Peer:
            wants, wants_heartbeats = self.evaluator.wants(peer), self.evaluator.wants_all(peer)
            self._wanted[peer] = bytes([_is_wanted(cls, peer, wants, wants_heartbeats) for cls in BY_INDEX])

    def wants(self, sender: Peer, index: int) -> bool:
        """Whether a rule may match a control or command with this index."""
        return self._wanted[sender][index] == 1

    def learn(self, control: Method010) -> None:
        """Update the client from a handshake control."""
        if self.know(updated_amqp010_client(self.client, control)):
            self.refresh()

    def stage(self, sender: Peer, view: Command, assembly: Assembly) -> Stage:
        """Return the stage needed to evaluate a command."""
        return self.evaluator.stage(sender, view.frames[0], self._facts(assembly))

    def verdict(self, sender: Peer, view: Command, assembly: Assembly) -> Verdict:
        """Return the verdict on a command of which its view has everything its stage needs."""
        return self.evaluate(sender, view, self._facts(assembly)).naming(assembly.method.name)

    def note_answer(self, answer: Command) -> None:
        """Count the completion of a command for limits."""
        self.evaluator.note_answer(answer)

    def _facts(self, assembly: Assembly) -> ChannelInfo:
        """Return the facts for a command: a publish that has to be accepted counts as confirmed."""
        method = assembly.method
        is_confirming = isinstance(method, MessageTransfer) and method.accept_mode != AcceptMode.NONE
        return self.facts(assembly.channel, is_confirming=is_confirming)

    def facts(self, number: int, *, is_confirming: bool = False) -> ChannelInfo:
        """Return the facts about a session that rules may use, by its channel."""
        channel = self._leg.channels.get(number)
        session = None if channel is None else channel.session
        if session is None:
            return ChannelInfo(number=number, is_by_credit=True)
        return ChannelInfo(
            number=number,
            is_confirming=is_confirming,
            is_transactional=session.transaction.mode is not TransactionMode.NONE,
            consumers=len(session.subscriptions),
            unacked=session.transfers[SERVER].acquired.count,
            is_by_credit=True,
        )


def _is_wanted(cls: type[Method010], sender: Peer, wants: bytes, wants_heartbeats: bool) -> bool:
    if cls is ConnectionHeartbeat:
        return wants_heartbeats
    if cls is MessageTransfer:
        return wants[(BasicPublish if sender is CLIENT else BasicDeliver).index] == 1
    shape = SHAPES[sender].get(cls)
    return shape is not None and wants[shape.method.index] == 1
