"""The source of the proxy's own credential for each upstream that has a `login`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Protocol

from amqproxy.configuration.config import Config, ConfigError
from amqproxy.configuration.extras import missing_extra
from amqproxy.configuration.login_config import UpstreamLogin
from amqproxy.configuration.resources import ConfigResources
from amqproxy.configuration.upstream_config import UpstreamConfig
from amqproxy.proxy.logins.addon_tokens import AddonTokens
from amqproxy.proxy.logins.credential import Credential, CredentialFailed, CredentialSource
from amqproxy.proxy.logins.credential_file import CredentialFile, FixedCredential
from amqproxy.proxy.logins.renewed_token import NewToken, RenewedToken
from amqproxy.proxy.logins.token_issuer import TokenIssuer
from amqproxy.proxy.upstream import MAIN
from amqproxy.rules.rewriting.secret import Secret
from amqproxy.tokens.web_client import WebClient

CountRenewal = Callable[[str, str], None]
"""Counts a renewal by its upstream and its outcome, which are those of `amqproxy_token_renewals_total`."""


class RunningSource(CredentialSource, Protocol):
    """A source that runs in the background; `fault` is the reason of its last failure, or ""."""

    fault: str

    async def run(self) -> None:
        """Keep the credential current, until cancelled."""


class UpstreamSource:
    """A source, and the config that it was made from."""

    def __init__(self, config: UpstreamLogin, source: RunningSource) -> None:
        self.config = config
        self.source = source


Sources = dict[str, UpstreamSource]


def credential_sources(config: Config, count: CountRenewal, before: Mapping[str, UpstreamSource]) -> Sources:
    """Return the source of each upstream with a `login`, by the upstream's name; `[upstream]` is "main".

    Those that `before` has with the same config are taken from there. Raise `ConfigError` if a password cannot be
    read.
    """
    logins = {name: (f"upstreams.{name}.login", each.login) for name, each in config.upstreams.items()}
    if isinstance(config.upstream, UpstreamConfig):
        logins[MAIN] = "upstream.login", config.upstream.login
    found: Sources = {}
    for name, (place, login) in logins.items():
        if login is None:
            continue
        old = before.get(name)
        is_same = old is not None and old.config == login
        found[name] = (
            old if is_same and old is not None else UpstreamSource(login, credential_source(login, name, place, count))
        )
    return found


def credential_source(config: UpstreamLogin, upstream: str, place: str, count: CountRenewal) -> RunningSource:
    """Return the source of an upstream's `login`, which is at this place in the config."""
    try:
        if config.password_env:
            password = Secret(ConfigResources(Path()).variable(config.password_env))
            return FixedCredential(Credential(config.user, password))
        if config.password_file:
            file = CredentialFile(upstream, config.user, config.password_file, is_token=False)
            if file.fault:
                raise ValueError(file.fault)
            return file
        if config.token_file:  # which the program that writes it may not have made so far
            return CredentialFile(upstream, config.user, config.token_file, is_token=True)
        return RenewedToken(upstream, config.user, _fetch(config, upstream), lambda outcome: count(upstream, outcome))
    except (ValueError, CredentialFailed, ConfigError) as error:
        raise ConfigError(f"{place}: {error}") from None


def _fetch(config: UpstreamLogin, upstream: str) -> Callable[[], Awaitable[NewToken]]:
    if config.addon:
        return AddonTokens(config.addon, upstream).fetch
    assert config.grant is not None
    fault = missing_extra("logins", ["httpx2"])
    if fault is not None:
        raise ValueError(fault)
    issuer = TokenIssuer(config.grant, WebClient(config.grant.ca))
    issuer.secret()
    return issuer.fetch
