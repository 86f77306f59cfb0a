"""What each command of a session does, but for message.transfer: a handler for each, in the order of its class.

A handler returns whether the command is complete later: then it, or what it has begun, calls `complete`.
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
    """A client may send a result or an exception, for commands that the broker never sends."""
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
"""Those that are implemented: to any other, not-implemented is the answer."""
