"""0-9-1 as a dialect of mocks."""

from __future__ import annotations

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.protocol_header import HEADER, NAME
from amqproxy.replay.dialogue import ConnectionSteps
from amqproxy.replay.mocking.amqp091.mock_connection import Amqp091MockConnection
from amqproxy.replay.mocking.amqp091.server_script import read_script
from amqproxy.replay.mocking.cast import Cast
from amqproxy.replay.mocking.mock_settings import MockSettings
from amqproxy.replay.mocking.server_script import ServerScript
from amqproxy.replay.names import SharedNames


class Amqp091MockDialect:
    """The dialect of 0-9-1 mocks."""

    name = NAME
    header = HEADER

    def script_of(self, dialogue: ConnectionSteps) -> ServerScript[Command]:
        return read_script(dialogue)

    def connection(
        self, cast: Cast[Command], shared: SharedNames, settings: MockSettings, now: float
    ) -> Amqp091MockConnection:
        return Amqp091MockConnection(cast, shared, settings, now)
