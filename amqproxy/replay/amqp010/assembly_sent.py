"""A recorded 0-10 control or command, as a step of its connection."""

from __future__ import annotations

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.protocol_header import NAME
from amqproxy.amqp091.commands import Command as View
from amqproxy.amqp091.errors import ProtocolError as ProtocolError091
from amqproxy.conversion.amqp010.command_view import command_view
from amqproxy.replay.steps import SentStep


class AssemblySent(SentStep, frozen=True, kw_only=True, gc=False):
    """A complete control or command, and the id of a command; None if it is not known."""

    protocol = NAME
    ERRORS = (ProtocolError, ProtocolError091)

    command: Assembly
    command_id: int | None = None

    @property
    def is_on_channel(self) -> bool:
        return not self.command.method.name.startswith("connection.")  # sessions may be on channel 0

    @property
    def message(self) -> View | None:
        try:
            return command_view(self.sender, self.command) if self.command.method.carries_content else None
        except self.ERRORS:
            return None
