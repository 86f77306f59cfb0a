"""Letting a command go no further, so that nobody waits for it."""

from __future__ import annotations

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicGetEmpty, BasicGetOk
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.rules.verdict import Answer, Insertion, Verdict


def dropped(
    command: Command, answer: Answer = Answer.NOTHING, returned: tuple[int, str] = (312, "NO_ROUTE")
) -> Verdict:
    """The last word: nothing goes on, and the sender is told what `answer` says.

    A client that has asked for a message hears that there is none.
    """
    insertions: tuple[Insertion, ...] = ()
    if command.index == BasicGetOk.index:
        insertions = (Insertion(CLIENT, Command(command.channel, BasicGetEmpty())),)
    return Verdict(command=None, answer=answer, returned=returned, insertions=insertions, is_final=True)
