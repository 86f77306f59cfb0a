"""The virtual hosts that a capture has opened: a new broker needs them before it can be played there."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.replay.steps import AssemblySent, CommandSent, Step


def opened_vhosts(steps: Iterable[Step]) -> set[str]:
    """Those that the recorded broker has let its clients into, by their names. Not those that it refused."""
    asked: dict[int, str] = {}
    opened: set[str] = set()
    for step in steps:
        method = _method(step)
        if method is None:
            continue
        if method.name == "connection.open":
            asked[step.stream] = method.virtual_host or ""
        elif method.name == "connection.open-ok" and asked.get(step.stream):
            opened.add(asked[step.stream])
    return opened


def _method(step: Step) -> Any:
    """The method of either protocol; None where there is none that can be read."""
    if isinstance(step, AssemblySent):
        return step.assembly.method
    if isinstance(step, CommandSent):
        with suppress(ProtocolError):
            return step.command.method
    return None
