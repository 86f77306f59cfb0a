"""Messages between the broker and its shovel process: lines of JSON over a Unix socket.

A line that opens a connection to this broker comes with the connection's file descriptor, in the line's first byte.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from amqproxy.shovels.definition import Shovel

LONGEST_LINE = 4 * 1024 * 1024
"""Maximum length of a line in bytes."""


class StartShovel(msgspec.Struct, frozen=True, tag="start"):
    """Start a shovel after `pause` seconds, once an earlier one of the same name has stopped.

    Reports about it have its `number`.
    """

    number: int
    shovel: Shovel
    pause: float = 0.0


class StopShovel(msgspec.Struct, frozen=True, tag="stop"):
    """Stop the shovel of a number."""

    number: int


class LocalConnection(msgspec.Struct, frozen=True, tag="local"):
    """The answer to `OpenLocal`: a connection, or the reason why there is none."""

    request: int
    refused: str = ""


Command = StartShovel | StopShovel | LocalConnection


class OpenLocal(msgspec.Struct, frozen=True, tag="open"):
    """Open a connection to this broker, to a virtual host.

    It is the login of `user`, whose password is checked if there is one; without a user, that of the broker itself.
    """

    request: int
    vhost: str
    user: str | None = None
    password: str | None = None


class ShovelState(msgspec.Struct, frozen=True, tag="state"):
    """The state of a shovel. `reason` is RabbitMQ's word for its end, `cause` the details.

    A shovel "is-over" when it has moved the messages after which it deletes itself.
    """

    number: int
    state: Literal["starting", "running", "terminated", "is-over"]
    reason: str = ""
    cause: str = ""
    source_uri: str = ""
    destination_uri: str = ""


class ShovelCounts(msgspec.Struct, frozen=True, array_like=True):
    """The counts of a running shovel since it was started first."""

    number: int
    forwarded: int
    moved: int
    refused: int
    remaining: int | None
    unpublished: int | None
    is_blocked: bool


class CountsReport(msgspec.Struct, frozen=True, tag="counts"):
    """The counts of shovels that have changed."""

    counts: list[ShovelCounts]


Report = OpenLocal | ShovelState | CountsReport
