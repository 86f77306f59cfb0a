"""Handlers of all session commands except message.transfer, in the order of their classes.

A handler returns whether the command is complete later; if so, the handler, or the job it has begun, calls `complete`.
"""

from __future__ import annotations

from amqproxy.amqp010.commands import ExecutionException, ExecutionResult, ExecutionSync
from amqproxy.amqp010.methods import Command
from amqproxy.broker.amqp010.command_session import CommandSession, Handler
from amqproxy.broker.amqp010.dtx_commands import HANDLERS as DTX
from amqproxy.broker.amqp010.message_commands import HANDLERS as MESSAGE
from amqproxy.broker.amqp010.model_commands import HANDLERS as MODEL
from amqproxy.broker.amqp010.tx_commands import HANDLERS as TX


def _sync(session: CommandSession, command: ExecutionSync, position: int, now: float) -> bool:
    return session.sync(position)


def _nothing(session: CommandSession, command: Command, position: int, now: float) -> bool:
    """Ignore a client's result or exception: the broker never sends the commands that they would answer."""
    return False


HANDLERS: dict[type[Command], Handler] = {
    ExecutionSync: _sync,
    ExecutionResult: _nothing,
    ExecutionException: _nothing,
    **MESSAGE,
    **TX,
    **DTX,
    **MODEL,
}
"""Handlers of the implemented commands; any other command is answered with not-implemented."""
