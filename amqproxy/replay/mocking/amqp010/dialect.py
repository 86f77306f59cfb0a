"""0-10 as a dialect of mocks."""

from __future__ import annotations

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.protocol_header import HEADER, NAME
from amqproxy.replay.dialogue import ConnectionSteps
from amqproxy.replay.mocking.amqp010.mock_connection import Amqp010MockConnection
from amqproxy.replay.mocking.amqp010.server_script import read_script
from amqproxy.replay.mocking.cast import Cast
from amqproxy.replay.mocking.mock_settings import MockSettings
from amqproxy.replay.mocking.server_script import ServerScript
from amqproxy.replay.names import SharedNames


class Amqp010MockDialect:
    """The dialect of 0-10 mocks."""

    name = NAME
    header = HEADER

    def script_of(self, dialogue: ConnectionSteps) -> ServerScript[Assembly]:
        return read_script(dialogue)

    def connection(
        self, cast: Cast[Assembly], shared: SharedNames, settings: MockSettings, now: float
    ) -> Amqp010MockConnection:
        return Amqp010MockConnection(cast, shared, settings, now)
