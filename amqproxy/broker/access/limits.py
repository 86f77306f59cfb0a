"""Limits of virtual hosts and of users: how much of something there may be."""

from __future__ import annotations

from collections.abc import Mapping

VHOST_LIMITS = ("max-connections", "max-queues")
USER_LIMITS = ("max-connections", "max-channels")


def check_limits(limits: Mapping[str, int], known: tuple[str, ...]) -> None:
    """`ValueError`, in RabbitMQ's words, where one is unknown or no whole number; a negative one is none."""
    strange = [name for name in limits if name not in known]
    if strange:
        raise ValueError(f"Unrecognised terms {strange} in limits")
    for name, value in limits.items():
        if type(value) is not int:
            raise ValueError(f"{name} should be a number, actually was {value!r}")


def limit(limits: Mapping[str, int], name: str) -> int | None:
    """A limit of a user's or virtual host's; None where there is none, which a negative one means too."""
    value = limits.get(name, -1)
    return value if value >= 0 else None
