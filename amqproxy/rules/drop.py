"""Verdict that drops a command, with a reply to a peer that waits for one."""

from __future__ import annotations

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicGetEmpty, BasicGetOk
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.rules.verdict import Answer, Insertion, Verdict


def dropped(
    command: Command, answer: Answer = Answer.NOTHING, returned: tuple[int, str] = (312, "NO_ROUTE")
) -> Verdict:
    """Return a final verdict that drops the command and sends `answer` to its sender.

    A client that sent basic.get receives get-empty.
    """
    insertions: tuple[Insertion, ...] = ()
    if command.index == BasicGetOk.index:
        insertions = (Insertion(CLIENT, Command(command.channel, BasicGetEmpty())),)
    return Verdict(command=None, answer=answer, returned=returned, insertions=insertions, is_final=True)
