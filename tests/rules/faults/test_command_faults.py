"""What single faults make of a command, in what the tables of `test_fault` do not show."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.methods import BasicAck, BasicDeliver, BasicPublish, ConnectionBlocked, QueueDeclare
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.rules.context import Client, CommandContext
from amqproxy.rules.faults.command_faults import (
    CLOSABLE,
    DROPPABLE,
    AnyCommandFault,
    BlockFault,
    CloseFault,
    CommandFault,
    DelayFault,
    DuplicateFault,
    ReturnFault,
)
from amqproxy.rules.verdict import Answer, Close, Stage, Verdict

ALICE = Client(properties={"capabilities": {"connection.blocked": True}})


def context(command: Command, sender: str = CLIENT) -> CommandContext:
    return CommandContext(
        sender=CLIENT if sender == CLIENT else SERVER, command=command, client=ALICE, random=lambda: 0.0
    )


def test_a_duplicate_has_the_whole_message() -> None:
    sent = Command(1, BasicDeliver("tag", 7), Properties(app_id="x"), b"body")
    (insertion,) = DuplicateFault().happen(context(sent, SERVER)).insertions
    copy = insertion.command
    assert (insertion.to, copy.method) == (CLIENT, BasicDeliver("tag", 7, True))
    assert (copy.properties, copy.body) == (sent.properties, b"body")
    assert DuplicateFault().needs is Stage.BODY


def test_texts() -> None:
    command = Command(1, QueueDeclare(queue="q"))
    assert CloseFault(code=406, text="inequivalent arg").happen(context(command)).close == Close(
        Scope.CHANNEL, 406, "PRECONDITION_FAILED - inequivalent arg", CLIENT
    )
    assert CloseFault(code=799, text="odd").happen(context(command)).close == Close(Scope.CHANNEL, 799, "odd", CLIENT)
    assert ReturnFault(code=313, text="NO_CONSUMERS").happen(context(Command(1, BasicPublish()))) == Verdict(
        command=None, answer=Answer.RETURN, returned=(313, "NO_CONSUMERS")
    )
    blocked = BlockFault(seconds=1, reason="low on disk").happen(context(command)).insertions[0].command
    assert (blocked.channel, blocked.method) == (0, ConnectionBlocked("low on disk"))


def test_nothing_is_early() -> None:
    assert DelayFault(seconds=1, jitter=3).happen(context(Command(1, BasicAck()))).delay == 0


@pytest.mark.parametrize("kind", AnyCommandFault.__args__)  # type: ignore[attr-defined]
def test_what_ends_a_channel_or_a_connection_is_never_lost(kind: type[CommandFault]) -> None:
    ends = {"connection.close", "connection.close-ok", "channel.close", "channel.close-ok"}
    assert not ends & (CLOSABLE | DROPPABLE)
    assert kind.__doc__
