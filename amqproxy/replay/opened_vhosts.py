"""The virtual hosts that a capture opens: a new broker needs them before the capture can be played there."""

from __future__ import annotations

from collections.abc import Iterable

from amqproxy.replay.steps import SentStep, Step


def opened_vhosts(steps: Iterable[Step]) -> set[str]:
    """Return the names of the virtual hosts that the recorded broker opened, without those that it refused."""
    asked: dict[int, str] = {}
    opened: set[str] = set()
    for step in steps:
        method = step.method if isinstance(step, SentStep) else None
        if method is None:
            continue
        if method.name == "connection.open":
            asked[step.stream] = method.virtual_host or ""
        elif method.name == "connection.open-ok" and asked.get(step.stream):
            opened.add(asked[step.stream])
    return opened
