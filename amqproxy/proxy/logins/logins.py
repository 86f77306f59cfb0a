"""All logins of a proxy: the checks of clients, and the proxy's own credentials, as its config has them now."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

import trio

from amqproxy.configuration.config import Config, ConfigError
from amqproxy.configuration.extras import missing_extra
from amqproxy.configuration.login_config import LoginConfig
from amqproxy.process.supervision import kept_up
from amqproxy.proxy.logins.configured_login import ConfiguredLogin, Count
from amqproxy.proxy.logins.credential import CredentialSource
from amqproxy.proxy.logins.credential_sources import Sources, credential_sources
from amqproxy.proxy.logins.fair_turns import FairTurns
from amqproxy.proxy.logins.login_check import Login
from amqproxy.proxy.logins.token_check import TokenCheck
from amqproxy.proxy.logins.user_directory import UserDirectory
from amqproxy.proxy.logins.user_service import UserService
from amqproxy.taps.metrics import RENEWAL_OUTCOMES, Metrics
from amqproxy.tokens.key_set import KeySet
from amqproxy.tokens.web_client import WebClient

Checks = dict[str, ConfiguredLogin]


class LoginParts(NamedTuple):
    """The checks of clients' logins by the name in `[logins.NAME]`, and the proxy's credentials by upstream."""

    checks: Checks
    sources: Sources


def password_turns() -> FairTurns:
    """Return the turns at checking passwords for all logins: half of the cores, so that relaying has the others."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return FairTurns(max(2, cores // 2))  # two, since one address has half at most


class Logins:
    """The `LoginCheck` of each `[logins.NAME]`, the `CredentialSource` of each upstream's `login`, and their tasks.

    A reload first makes the parts of the new config with `read`, which may fail, and then applies them.
    """

    def __init__(self, config: Config, metrics: Metrics) -> None:
        """Raise `ConfigError` if a file is invalid, or a package is missing."""
        self._metrics = metrics
        self._turns = password_turns()
        self._changed = trio.Event()
        self._renewals: dict[str, dict[str, int]] = {}
        self._parts = LoginParts({}, {})
        self._parts = self.read(config)
        self.by_name = {name: Login(check) for name, check in self._parts.checks.items()}
        """The login of each `[logins.NAME]`, which keeps what brokers have offered when its check is replaced."""

    @property
    def checks(self) -> Checks:
        """The check of each `[logins.NAME]`."""
        return self._parts.checks

    @property
    def credentials(self) -> dict[str, CredentialSource]:
        """The proxy's credentials for each upstream that has a `login`; that of `[upstream]` is "main"."""
        return credentials_of(self._parts)

    def read(self, config: Config) -> LoginParts:
        """Return the parts of a config; those that are configured as before are the same objects."""
        checks = login_checks(config, self._count_login, turns=self._turns, before=self.checks)
        return LoginParts(checks, credential_sources(config, self._count_renewal, self._parts.sources))

    def apply(self, parts: LoginParts) -> None:
        """Use these parts from now on; what was remembered of logins is forgotten."""
        self.by_name = {name: each for name, each in self.by_name.items() if name in parts.checks}
        self._parts = parts
        for name, check in parts.checks.items():
            self.by_name.setdefault(name, Login(check)).check = check
            check.forget()
        self._changed.set()

    async def run(self) -> None:
        """Run the tasks of all parts until cancelled."""
        while True:
            self._changed = trio.Event()
            async with trio.open_nursery() as nursery:
                for check in self._parts.checks.values():
                    nursery.start_soon(check.run)
                for name, each in self._parts.sources.items():
                    for outcome in RENEWAL_OUTCOMES:  # so that they exist, at 0
                        self._metrics.token_renewals.labels(name, outcome)
                    nursery.start_soon(kept_up, "credential not kept current", each.source.run)
                await self._changed.wait()
                nursery.cancel_scope.cancel()

    def _count_login(self, source: str, outcome: str) -> None:
        self._metrics.logins.labels(source, outcome).inc()

    def renewals(self, upstream: str) -> dict[str, int] | None:
        """Return the number of requests for a token by outcome; `None` if the upstream's login needs none."""
        return self._renewals.get(upstream)

    def renewal_fault(self, upstream: str) -> str:
        """Return the reason why the upstream's last credential could not be got; "" without a failure."""
        found = self._parts.sources.get(upstream)
        return "" if found is None else found.source.fault

    def _count_renewal(self, upstream: str, outcome: str) -> None:
        counts = self._renewals.setdefault(upstream, dict.fromkeys(RENEWAL_OUTCOMES, 0))
        counts[outcome] += 1
        self._metrics.token_renewals.labels(upstream, outcome).inc()


def credentials_of(parts: LoginParts) -> dict[str, CredentialSource]:
    """Return the credentials by upstream, also of parts that are not applied so far."""
    return {name: each.source for name, each in parts.sources.items()}


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
    place = f"logins.{name}"
    return ConfiguredLogin(
        config,
        count,
        users=_users(place, config, turns),
        service=_service(place, config),
        tokens=_tokens(place, config),
    )


def _users(place: str, config: LoginConfig, turns: FairTurns) -> UserDirectory | None:
    if not config.users_file:
        return None
    need(f"{place}.users_file", "argon2")
    try:
        return UserDirectory(config.users_file, turns)
    except ConfigError as error:
        raise ConfigError(f"{place}.users_file: {error}") from None


def _service(place: str, config: LoginConfig) -> UserService | None:
    callback = config.callback
    if callback is None:
        return None
    return UserService(callback, _client(f"{place}.callback", callback.ca))


def _tokens(place: str, config: LoginConfig) -> TokenCheck | None:
    tokens = config.tokens
    if tokens is None:
        return None
    need(f"{place}.tokens", "joserfc")
    client = _client(f"{place}.tokens", tokens.ca) if "://" in tokens.keys else None
    return TokenCheck(tokens, KeySet(tokens, client))


def _client(place: str, ca: str) -> WebClient:
    need(place, "httpx2")
    try:
        return WebClient(ca)
    except ConfigError as error:
        raise ConfigError(f"{place}.{error}") from None


def need(place: str, *packages: str) -> None:
    """Raise `ConfigError` unless these packages of the extra `logins` are installed."""
    fault = missing_extra("logins", packages)
    if fault is not None:
        raise ConfigError(f"{place}: {fault}")
