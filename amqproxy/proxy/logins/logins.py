"""All checks of logins of a proxy, as its config has them now."""

from __future__ import annotations

import os
from collections.abc import Mapping

import trio

from amqproxy.configuration.config import Config, ConfigError
from amqproxy.configuration.extras import missing_extra
from amqproxy.configuration.login_config import LoginConfig
from amqproxy.process.supervision import kept_up
from amqproxy.proxy.logins.configured_login import ConfiguredLogin, Count
from amqproxy.proxy.logins.fair_turns import FairTurns
from amqproxy.proxy.logins.user_directory import UserDirectory

Checks = dict[str, ConfiguredLogin]


def password_turns() -> FairTurns:
    """Return the turns at checking passwords for all logins: half of the cores, so that relaying has the others."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return FairTurns(max(2, cores // 2))  # two, since one address has half at most


class Logins:
    """The `LoginCheck` of each `[logins.NAME]`, and their tasks.

    A reload first makes the checks of the new config with `read`, which may fail, and then applies them.
    """

    def __init__(self, config: Config, count: Count) -> None:
        """Raise `ConfigError` if a file is invalid, or a package is missing."""
        self._count = count
        self._turns = password_turns()
        self._changed = trio.Event()
        self.checks: Checks = {}
        self.checks = self.read(config)

    def read(self, config: Config) -> Checks:
        """Return the checks of a config; those that are configured as before are the same objects."""
        return login_checks(config, self._count, turns=self._turns, before=self.checks)

    def apply(self, checks: Checks) -> None:
        """Use these checks from now on; what was remembered is forgotten."""
        self.checks = checks
        for each in checks.values():
            each.forget()
        self._changed.set()

    async def run(self) -> None:
        """Run the tasks of the checks until cancelled."""
        while True:
            self._changed = trio.Event()
            async with trio.open_nursery() as nursery:
                for each in self.checks.values():
                    nursery.start_soon(kept_up, "login source failed", each.run)
                await self._changed.wait()
                nursery.cancel_scope.cancel()


def login_checks(
    config: Config, count: Count, *, turns: FairTurns | None = None, before: Mapping[str, ConfiguredLogin] | None = None
) -> Checks:
    """Return the check of each `[logins.NAME]`; raise `ConfigError` if a file is invalid, or a package is missing.

    Those that `before` has with the same config are taken from there.
    """
    turns = turns or password_turns()
    found: Checks = {}
    for name, each in config.logins.items():
        old = (before or {}).get(name)
        found[name] = old if old is not None and old.config == each else _check(name, each, count, turns)
    return found


def _check(name: str, config: LoginConfig, count: Count, turns: FairTurns) -> ConfiguredLogin:
    users = None
    if config.users_file:
        need(f"logins.{name}.users_file", "argon2")
        try:
            users = UserDirectory(config.users_file, turns)
        except ConfigError as error:
            raise ConfigError(f"logins.{name}.users_file: {error}") from None
    return ConfiguredLogin(config, count, users=users)


def need(place: str, *packages: str) -> None:
    """Raise `ConfigError` unless these packages of the extra `logins` are installed."""
    fault = missing_extra("logins", packages)
    if fault is not None:
        raise ConfigError(f"{place}: {fault}")
