"""Limits of virtual hosts and of users on connections, queues and channels."""

from __future__ import annotations

from collections.abc import Mapping

VHOST_LIMITS = ("max-connections", "max-queues")
USER_LIMITS = ("max-connections", "max-channels")


def check_limits(limits: Mapping[str, int], known: tuple[str, ...]) -> None:
    """Raise `ValueError`, with RabbitMQ's text, for an unknown limit or a value other than an integer."""
    strange = [name for name in limits if name not in known]
    if strange:
        raise ValueError(f"Unrecognised terms {strange} in limits")
    for name, value in limits.items():
        if type(value) is not int:
            raise ValueError(f"{name} should be a number, actually was {value!r}")


def limit(limits: Mapping[str, int], name: str) -> int | None:
    """Return a limit of a user or virtual host; `None` if it is missing or negative, which means no limit."""
    value = limits.get(name, -1)
    return value if value >= 0 else None
