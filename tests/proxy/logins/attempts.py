"""Attempts to log in, and what tests share about them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import trio
from argon2 import PasswordHasher

from amqproxy.proxy.logins.attempt import LoginAttempt
from amqproxy.rules.context import Client
from amqproxy.rules.rewriting.secret import Secret


def quick_hash(password: str) -> str:
    """A hash that is checked in less than a millisecond."""
    return PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(password)


def attempt(user: str, password: str = "", *, address: str = "10.0.0.1", mechanism: str = "PLAIN") -> LoginAttempt:
    return LoginAttempt(mechanism, user, Secret(password), Client(address=address))


def write_users(path: Path, **passwords: str) -> Path:
    path.write_text("".join(f"[users.{name}]\npassword = '{quick_hash(each)}'\n" for name, each in passwords.items()))
    return path


class Counts:
    """Counted logins, in order."""

    def __init__(self) -> None:
        self.logins: list[tuple[str, str]] = []

    def __call__(self, source: str, outcome: str) -> None:
        self.logins.append((source, outcome))


async def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds that files or threads bring about."""
    with trio.fail_after(60):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.002)
