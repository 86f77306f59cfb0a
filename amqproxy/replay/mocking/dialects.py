"""The protocols that mocks speak."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from amqproxy.replay.dialogue import ConnectionSteps
from amqproxy.replay.mocking.amqp010.dialect import Amqp010MockDialect
from amqproxy.replay.mocking.amqp091.dialect import Amqp091MockDialect
from amqproxy.replay.mocking.dialect import MockDialect
from amqproxy.replay.mocking.server_script import ServerScript

AnyScript: TypeAlias = ServerScript[Any]

DIALECTS: dict[str, MockDialect] = {each.name: each for each in (Amqp091MockDialect(), Amqp010MockDialect())}
"""Dialects by protocol name. A client with another header gets the first one that is recorded."""


def scripts_of(dialogues: Iterable[ConnectionSteps]) -> list[AnyScript]:
    """Return the scripts of all playable connections, in their order."""
    scripts = (DIALECTS[each.protocol].script_of(each) for each in dialogues)
    return [each for each in scripts if each.virtual_host is not None or each.channels or each.refused is not None]
