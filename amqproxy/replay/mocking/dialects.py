"""The protocols that mocks speak."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

from amqproxy.amqp010 import protocol_header as amqp010
from amqproxy.amqp091 import protocol_header as amqp091
from amqproxy.replay.dialogue import ConnectionSteps
from amqproxy.replay.mocking.amqp010.mock_connection import Amqp010MockConnection
from amqproxy.replay.mocking.amqp010.server_script import read_script as read_amqp010_script
from amqproxy.replay.mocking.amqp091.mock_connection import Amqp091MockConnection
from amqproxy.replay.mocking.amqp091.server_script import read_script as read_amqp091_script
from amqproxy.replay.mocking.cast import Cast
from amqproxy.replay.mocking.mock_connection import MockConnection, MockSettings
from amqproxy.replay.mocking.server_script import ServerScript
from amqproxy.replay.names import SharedNames

AnyScript: TypeAlias = ServerScript[Any]
AnyMock: TypeAlias = MockConnection[Any, Any, Any]


class MockDialect(NamedTuple):
    """One protocol that mocks speak.

    To add a protocol: derive a `ScriptReading`, which reads what a recorded server answered; a `MockChannel`, which
    answers and delivers on one channel; and a `MockConnection`, which reads and writes frames. Put them in a folder,
    and list them here.
    """

    name: str
    """Name of the protocol, as decoded captures have it."""
    header: bytes
    """Protocol header with which its clients begin."""
    script_of: Callable[[ConnectionSteps], AnyScript]
    """Reads the script of a recorded connection."""
    connection: Callable[[Cast[Any], SharedNames, MockSettings, float], AnyMock]
    """Begins the server's side of a live connection."""


DIALECTS: dict[str, MockDialect] = {
    each.name: each
    for each in (
        MockDialect(amqp091.NAME, amqp091.HEADER, read_amqp091_script, Amqp091MockConnection),
        MockDialect(amqp010.NAME, amqp010.HEADER, read_amqp010_script, Amqp010MockConnection),
    )
}
"""Dialects by protocol name. A client with another header gets the first one that is recorded."""


def scripts_of(dialogues: Iterable[ConnectionSteps]) -> list[AnyScript]:
    """Return the scripts of all playable connections, in their order."""
    scripts = (DIALECTS[each.protocol].script_of(each) for each in dialogues)
    return [each for each in scripts if each.virtual_host is not None or each.channels or each.refused is not None]
