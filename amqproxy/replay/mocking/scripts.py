"""The scripts of all recorded connections of which something can be played, whichever protocol they speak."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from amqproxy.replay.dialogue import ConnectionSteps
from amqproxy.replay.mocking.amqp010.server_script import Amqp010ServerScript
from amqproxy.replay.mocking.amqp091.server_script import Amqp091ServerScript

AnyScript: TypeAlias = Amqp091ServerScript | Amqp010ServerScript


def scripts_of(dialogues: Iterable[ConnectionSteps]) -> list[AnyScript]:
    """The scripts of these connections, in their order."""
    scripts = (Amqp010ServerScript(each) if each.is_amqp010 else Amqp091ServerScript(each) for each in dialogues)
    return [each for each in scripts if each.virtual_host is not None or each.channels or each.refused is not None]
