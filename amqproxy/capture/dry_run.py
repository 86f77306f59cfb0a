"""Dry run of rules on the traffic in a capture.

Each command is evaluated as it was captured: a channel that a rule would have closed, or a reply that it would have
dropped, changes nothing for later commands.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator

import msgspec

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import DtxSelect, MessageTransfer, QueueDelete
from amqproxy.amqp010.commands import TxSelect as TxSelectOf010
from amqproxy.amqp010.controls import SessionDetached
from amqproxy.amqp010.domains import AcceptMode
from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import ChannelCloseOk, ConfirmSelect, Method, TxSelect
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.capture.amqp010.assembly_gatherer import AssemblyGatherer
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.amqp091.command_gatherer import CommandGatherer
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import DecodedFrames
from amqproxy.conversion.amqp010.awaited_deletes import AwaitedDeletes, delete_answer
from amqproxy.conversion.amqp010.command_view import view_channel
from amqproxy.rules.amqp010.client_info import updated_amqp010_client
from amqproxy.rules.amqp010.explanation import AMQP010_WORDS
from amqproxy.rules.client_info import updated_client
from amqproxy.rules.context import ChannelInfo, Client, CommandContext
from amqproxy.rules.engine.describe import USUAL_WORDS, describe_verdict
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.rule import Rule
from amqproxy.rules.verdict import Stage
from amqproxy.taps.text import clock

SEED = 0
"""Seed of the random numbers, so that dry runs are reproducible."""


class DryRunResult(msgspec.Struct, frozen=True, kw_only=True):
    """A command that rules would have acted on: the actions in `what`, and the rules.

    `stream`, `connection` and `sender` are as in a `Record`; in 0-10, `method` is the control's or command's name.
    """

    ts_ns: int
    stream: int
    connection: str
    sender: str
    channel: int
    method: str
    rules: tuple[str, ...]
    what: tuple[str, ...]
    tags: tuple[str, ...] = ()

    def __str__(self) -> str:
        arrow = ">" if self.sender == "client" else "<"
        what, rules = "; ".join(self.what) or "allowed", ", ".join(self.rules)
        return f"{clock(self.ts_ns)} #{self.stream} {arrow} {self.channel} {self.method}: {what}  [{rules}]"


class DryRun:
    """Evaluates rules on the connections of a capture, each from its beginning."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = RuleSet(rules)
        self.commands = 0
        self._random = random.Random(SEED).random
        self._parts: dict[int, _ConnectionDryRun | _Amqp010DryRun] = {}

    def play(self, passed: DecodedFrames) -> Iterator[DryRunResult]:
        """Yield the results for the commands that these frames complete."""
        part = self._parts.get(passed.stream)
        if part is None:
            client = Client.named(passed.stream, passed.connection)
            kind = _ConnectionDryRun if isinstance(passed, Amqp091DecodedFrames) else _Amqp010DryRun
            part = self._parts[passed.stream] = kind(self.rules, client, self._random)
        for result in part.play(passed):
            self.commands += 1
            if result is not None:
                yield result

    def end(self, stream: int) -> None:
        """Forget a connection; a later one in another capture may have its number."""
        self._parts.pop(stream, None)


class _JudgedConnection:
    """Base class of a connection's dry run: its evaluator, and the code shared by both protocols."""

    def __init__(self, rules: RuleSet, client: Client, chance: Callable[[], float]) -> None:
        self._evaluator = rules.evaluator(client)
        self._random = chance

    def _judged(
        self,
        sender: Peer,
        command: Command,
        facts: ChannelInfo,
        passed: DecodedFrames,
        name: str,
    ) -> DryRunResult | None:
        """Return the result for a command of this `name`; None if it would pass unchanged."""
        if self._evaluator.stage(sender, command.frames[0], facts) is Stage.NOTHING:
            return None
        seconds = passed.ts_ns / 1e9
        context = CommandContext(
            sender=sender,
            command=command,
            client=self._evaluator.client,
            channel=facts,
            now=seconds,
            time=seconds,
            random=self._random,
        )
        verdict = self._evaluator.evaluate(context).naming(name)
        words = AMQP010_WORDS if isinstance(passed, Amqp010DecodedFrames) else USUAL_WORDS
        what = describe_verdict(verdict, command, is_confirming=facts.is_confirming, words=words)
        if not what and not verdict.marks:
            return None
        return DryRunResult(
            ts_ns=passed.ts_ns,
            stream=passed.stream,
            connection=passed.connection,
            sender=passed.sender,
            channel=facts.number,
            method=name,
            rules=verdict.marks,
            what=what,
            tags=verdict.tags,
        )

    def _know(self, known: Client) -> None:
        """Update the client from the commands of its login."""
        if known is not self._evaluator.client:
            self._evaluator.know(known)


class _ConnectionDryRun(_JudgedConnection):
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


class _Amqp010DryRun(_JudgedConnection):
    """Dry run of a 0-10 connection, whose controls and commands rules see as those of 0-9-1."""

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
            if isinstance(method, TxSelectOf010 | DtxSelect):
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
