"""Dry run of rules on a captured 0-10 connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import DtxSelect, MessageTransfer, QueueDelete, TxSelect
from amqproxy.amqp010.controls import SessionDetached
from amqproxy.amqp010.domains import AcceptMode
from amqproxy.amqp091.commands import Command
from amqproxy.capture.amqp010.assembly_gatherer import AssemblyGatherer
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.connection_dry_run import ConnectionDryRun, DryRunResult
from amqproxy.capture.decoded import DecodedFrames
from amqproxy.conversion.amqp010.awaited_deletes import AwaitedDeletes, delete_answer
from amqproxy.conversion.amqp010.command_view import view_channel
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.rules.amqp010.client_info import updated_amqp010_client
from amqproxy.rules.amqp010.explanation import AMQP010_WORDS
from amqproxy.rules.context import ChannelInfo, Client
from amqproxy.rules.engine.evaluator import RuleSet


class Amqp010DryRun(ConnectionDryRun):
    """Dry run of a 0-10 connection, whose controls and commands rules see as those of 0-9-1."""

    words = AMQP010_WORDS

    def __init__(self, rules: RuleSet, client: Client, chance: Callable[[], float]) -> None:
        super().__init__(rules, client, chance)
        self._gatherer = AssemblyGatherer()
        self._transactional: set[int] = set()
        self._deletes: dict[int, AwaitedDeletes] = {}

    def play(self, passed: DecodedFrames) -> Iterator[DryRunResult | None]:
        """Yield the result for each command that these frames complete, and that rules see."""
        if not isinstance(passed, Amqp010DecodedFrames):
            return
        sender = Peer(passed.sender)
        for frame, command_id in zip(passed.frames, passed.command_ids, strict=True):
            found = self._gatherer.gather(sender, frame, command_id)
            if found is None:
                continue
            number, method = found.assembly.channel, found.assembly.method
            if isinstance(method, TxSelect | DtxSelect):
                self._transactional.add(number)
            if found.view is not None:
                yield self._evaluate(sender, found.assembly, found.view, passed)
            if isinstance(method, QueueDelete) and command_id is not None:
                self._deletes.setdefault(number, AwaitedDeletes()).note(method, command_id)
            elif sender is SERVER and number in self._deletes:
                for _ in range(self._deletes[number].completed_by(method)):
                    self._evaluator.note_answer(delete_answer(view_channel(number)))
            if isinstance(method, SessionDetached):
                self._deletes.pop(number, None)
                self._transactional.discard(number)
                self._evaluator.channel_closed(view_channel(number))

    def _evaluate(
        self, sender: Peer, assembly: Assembly, view: Command, passed: Amqp010DecodedFrames
    ) -> DryRunResult | None:
        method = assembly.method
        facts = ChannelInfo(
            number=assembly.channel,
            is_confirming=isinstance(method, MessageTransfer) and method.accept_mode != AcceptMode.NONE,
            is_transactional=assembly.channel in self._transactional,
            is_by_credit=True,
        )
        if sender is CLIENT and view.index >= 0 and not view.channel:
            self._know(updated_amqp010_client(self._evaluator.client, method))
        return self._judged(sender, view, facts, passed, method.name)
