"""Dry run of rules on a captured 0-9-1 connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import ChannelCloseOk, ConfirmSelect, Method, TxSelect
from amqproxy.capture.amqp091.command_gatherer import CommandGatherer
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.connection_dry_run import ConnectionDryRun, DryRunResult
from amqproxy.capture.decoded import DecodedFrames
from amqproxy.peer import CLIENT, Peer
from amqproxy.rules.client_info import updated_client
from amqproxy.rules.context import ChannelInfo, Client
from amqproxy.rules.engine.evaluator import RuleSet


class Amqp091DryRun(ConnectionDryRun):
    """Dry run of a 0-9-1 connection."""

    def __init__(self, rules: RuleSet, client: Client, chance: Callable[[], float]) -> None:
        super().__init__(rules, client, chance)
        self._gatherer = CommandGatherer()
        self._modes: dict[int, type[Method]] = {}

    def play(self, passed: DecodedFrames) -> Iterator[DryRunResult | None]:
        """Yield the result for each command that these frames complete."""
        if not isinstance(passed, Amqp091DecodedFrames):
            return  # a connection has one protocol
        sender = Peer(passed.sender)
        for frame in passed.frames:
            command = self._gatherer.gather(sender, frame)
            if command is not None:
                yield self._evaluate(sender, command, passed)

    def _evaluate(self, sender: Peer, command: Command, passed: Amqp091DecodedFrames) -> DryRunResult | None:
        number = command.channel
        name = "heartbeat" if command.index < 0 else command.method.name
        facts = ChannelInfo(
            number=number,
            is_confirming=self._modes.get(number) is ConfirmSelect,
            is_transactional=self._modes.get(number) is TxSelect,
        )
        if command.index >= 0:
            self._learn(sender, number, command.method)
        return self._judged(sender, command, facts, passed, name)

    def _learn(self, sender: Peer, number: int, method: Method) -> None:
        """Track the state that later commands depend on: the client, and the modes of its channels."""
        if sender is CLIENT and number == 0:
            self._know(updated_client(self._evaluator.client, method))
        elif isinstance(method, (ConfirmSelect, TxSelect)):
            self._modes[number] = type(method)
        elif isinstance(method, ChannelCloseOk):
            self._modes.pop(number, None)
            self._evaluator.channel_closed(number)
