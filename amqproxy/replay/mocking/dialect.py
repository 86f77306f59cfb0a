"""Interface between the mock server and the protocols that it speaks."""

from __future__ import annotations

from typing import Any, Protocol

from amqproxy.replay.dialogue import ConnectionSteps
from amqproxy.replay.mocking.cast import Cast
from amqproxy.replay.mocking.mock_connection import MockConnection
from amqproxy.replay.mocking.mock_settings import MockSettings
from amqproxy.replay.mocking.server_script import ServerScript
from amqproxy.replay.names import SharedNames


class MockDialect(Protocol):
    """One protocol that mocks speak.

    To add a protocol: derive a `ScriptReading`, which reads what a recorded server answered; a `MockChannel`, which
    answers and delivers on one channel; and a `MockConnection`, which reads and writes frames. Put them in a folder
    with a dialect, and list that in `dialects`.
    """

    @property
    def name(self) -> str:
        """The name of the protocol, as decoded captures have it."""

    @property
    def header(self) -> bytes:
        """The protocol header with which its clients begin."""

    def script_of(self, dialogue: ConnectionSteps) -> ServerScript[Any]:
        """Read the script of a recorded connection."""

    def connection(
        self, cast: Cast[Any], shared: SharedNames, settings: MockSettings, now: float
    ) -> MockConnection[Any, Any, Any]:
        """Begin the server's side of a live connection."""
