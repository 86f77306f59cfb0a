"""Config changes that a running proxy applies: rules, upstreams, logins and listeners.

Other changes in the file need a restart, and are listed.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from amqproxy.amqp091.methods import ConnectionStartOk
from amqproxy.app.address_unavailable import AddressUnavailable
from amqproxy.app.client_upstreams import check_passwords, dialers_of, routes_of
from amqproxy.app.listeners import (
    ListenerChange,
    Listeners,
    announce,
    changes_of,
    close_listeners,
    contexts_for,
    contexts_of,
    opened_listener,
)
from amqproxy.configuration.config import INTEGRATED, Config, ConfigError
from amqproxy.configuration.resources import ConfigResources
from amqproxy.configuration.upstream_config import NamedUpstream
from amqproxy.control.request_error import RequestError
from amqproxy.control.request_handler import NotReloaded
from amqproxy.control.rule_reader import RuleReader
from amqproxy.process.log import logger
from amqproxy.process.supervision import describe
from amqproxy.proxy.listener import ProxyServer
from amqproxy.proxy.logins.logins import LoginParts, Logins, credentials_of
from amqproxy.proxy.mirroring.mirror_publisher import MirrorLogin
from amqproxy.proxy.mirroring.mirrors import Mirrors
from amqproxy.proxy.upstream import Dialer
from amqproxy.proxy.upstreams.health_checks import HealthChecks
from amqproxy.proxy.upstreams.name_lookups import NameLookups
from amqproxy.sockets.tls import files_of, renew

RELOAD_SECONDS = 25.0
"""Time limit for reading the config again, in seconds: `amqproxy control reload` waits 30 s for its answer."""

APPLIED = re.compile(r"rules|upstreams|routes|logins|upstream(?!\.bridge)|listen\b")
"""Keys of the config that are applied, as a pattern of their beginnings."""


class Reloader:
    """Reads the config again with `reread`, and applies its applicable changes to the proxy.

    `config` is the config at the start. `listeners` are its own, `contexts` the TLS contexts of other listeners;
    `upstreams` the dialers of the mirrors, `checks` and `lookups` those of the clients' upstreams; `logins` are those
    of clients and of the proxy.
    """

    def __init__(
        self,
        config: Config,
        reread: Callable[[], Config] | None,
        server: ProxyServer,
        mirrors: Mirrors,
        upstreams: Mapping[str, Dialer],
        *,
        listeners: Listeners | None = None,
        contexts: Iterable[ssl.SSLContext] = (),
        checks: HealthChecks | None = None,
        lookups: NameLookups | None = None,
        logins: Logins | None = None,
    ) -> None:
        self._config = config
        self._reread = reread
        self._server = server
        self._mirrors = mirrors
        self._upstreams = dict(upstreams)
        self._with_login = _with_login(config)
        self._has_listeners = listeners is not None
        self._listeners = [] if listeners is None else listeners
        self._further_contexts = tuple(contexts)
        self._checks = checks
        self._lookups = lookups
        self._logins = logins
        self._reader = RuleReader(RELOAD_SECONDS)

    @property
    def _dialers(self) -> list[Dialer]:
        return [*dialers_of(self._server.upstreams.routes), *self._upstreams.values()]

    @property
    def _contexts(self) -> list[ssl.SSLContext]:
        return [*contexts_of(self._listeners), *self._further_contexts]

    @property
    def with_login(self) -> Mapping[str, NamedUpstream]:
        """Upstreams to which the proxy itself may log in, as the config has them now."""
        return self._with_login

    @property
    def upstreams(self) -> dict[str, NamedUpstream]:
        """Further brokers that rules may name now."""
        found = {name: dialer.upstream for name, dialer in self._upstreams.items()}
        return {name: each for name, each in found.items() if isinstance(each, NamedUpstream)}

    async def reload(self) -> tuple[str, ...]:
        """Apply the changes; return the keys of the other changes, which need a restart.

        The config is read in a thread with a deadline, since a disk may hang and a script may never end. Reloads run
        one after another. Raise `NotReloaded` if it is wrong: then nothing changes, except that
        valid certificates are reloaded.
        """
        log = logger()
        self.renew_certificates()
        opened: Listeners = []
        try:
            config = await self._read()
            changes = changes_of(self._listeners, config.listen if self._has_listeners else ())
            for listener, context in contexts_for(each for each in changes.further if each.passed_name is None):
                opened += await opened_listener(listener, context)
            restart = self._take_over(config, changes.changed)
            await self._replace(opened, changes.removed)
            opened = []
        except (AddressUnavailable, ConfigError, RequestError, ValueError) as error:
            fault = str(error)
        except Exception as error:  # noqa: BLE001 - the current rules stay in force, whatever is wrong with a file
            fault = describe(error)
        else:
            log.info("rules reloaded", rules=len(self._server.rules.lasting))
            if restart:
                log.warning("restart needed", changed=", ".join(restart))
            return restart
        finally:
            await close_listeners(opened)
        log.error("rules not reloaded", reason=fault)
        raise NotReloaded(fault)

    def renew_certificates(self) -> None:
        """Reload all TLS files, for new connections."""
        renew_certificates(self._contexts, self._dialers)

    def certificate_files(self) -> list[str]:
        """Return the files that `renew_certificates` reads."""
        ours = [file for context in self._contexts for file in files_of(context)]
        return ours + [file for dialer in self._dialers for file in dialer.tls_files]

    async def _read(self) -> Config:
        if self._reread is None:
            raise ValueError("the proxy was started without a config file to reload")
        return await self._reader.read(self._reread)

    def _take_over(self, config: Config, changes: list[ListenerChange]) -> tuple[str, ...]:
        dialers, logins = mirror_upstreams(config, self._upstreams)
        rules = self._server.rules.replaced(config.rules)
        routed = config
        if _moves_broker(self._config, config):  # listed as needing a restart
            routed = msgspec.structs.replace(config, upstream=self._config.upstream)
        parts = self._logins.read(routed) if self._logins is not None else LoginParts({}, {})
        routes = routes_of(routed, before=self._server.upstreams.routes, credentials=credentials_of(parts))
        passwords = check_passwords(routed)
        names = {*dialers, *self._upstreams}
        changed = sorted(name for name in names if dialers.get(name) is not self._upstreams.get(name))
        self._mirrors.replace(dialers, logins)
        self._upstreams = dialers
        self._with_login = _with_login(routed)
        self._server.upstreams.apply(routes)
        if self._logins is not None:
            self._logins.apply(parts)
            self._server.follow(self._logins.credentials.values())
        self._change_listeners(changes)
        if self._checks is not None:
            self._checks.apply(passwords)
        if self._lookups is not None:
            self._lookups.restart()
        self._server.apply_rules(rules)
        if changed:
            logger().info("upstreams reloaded", upstreams=", ".join(changed))
        return differences(self._config, config)

    def _change_listeners(self, changes: Iterable[ListenerChange]) -> None:
        logins = self._logins.by_name if self._logins is not None else {}
        for sockets, config, tls in changes:
            for each in sockets:
                each.apply(config, tls, None if config.login is None else logins[config.login])
            logger().info("listener reloaded", address=config.address, tls=tls is not None)

    async def _replace(self, opened: Listeners, removed: Listeners) -> None:
        """Accept clients of further listeners, and no more of those that are removed."""
        logins = self._logins.by_name if self._logins is not None else {}
        for each in opened:
            each.login = None if each.config.login is None else logins[each.config.login]
            self._listeners.append(each)
            self._server.accept(each)
        announce(opened)
        for each in removed:
            self._listeners.remove(each)
            await self._server.stop_accepting(each)
            logger().info("listener closed", address=each.config.address)


def renew_certificates(contexts: Iterable[ssl.SSLContext], dialers: Iterable[Dialer] = ()) -> None:
    """Reload the TLS files of listeners and dialers, for new connections; a bad file changes nothing."""
    listeners = upstreams = 0
    for context in {id(context): context for context in contexts}.values():
        with _reported():
            renew(context)
            listeners += 1
    for dialer in dialers:
        with _reported():
            upstreams += dialer.renew()
    if listeners or upstreams:
        logger().info("certificates reloaded", listeners=listeners, upstreams=upstreams)


@contextmanager
def _reported() -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        logger().error("certificate not reloaded", reason=str(error))


def _with_login(config: Config) -> dict[str, NamedUpstream]:
    return {name: each for name, each in config.upstreams.items() if each.has_login}


def mirror_upstreams(
    config: Config, before: Mapping[str, Dialer] | None = None
) -> tuple[dict[str, Dialer], dict[str, MirrorLogin]]:
    """Return the dialers of the brokers in `[upstreams.x]`, and their logins; raise `ConfigError` if a file is wrong.

    An unchanged dialer is taken from `before`.
    """
    dialers: dict[str, Dialer] = {}
    logins: dict[str, MirrorLogin] = {}
    resources = ConfigResources(Path())
    for name, each in config.upstreams.items():
        if not each.takes_copies:
            continue
        try:
            text = resources.text(each.password_file) if each.password_file else resources.variable(each.password_env)
        except ValueError as error:
            raise ConfigError(f"upstreams.{name}: {error}") from None
        old = (before or {}).get(name)
        is_same = old is not None and old.upstream == each
        dialers[name] = old if is_same and old is not None else Dialer(each, config.limits.connect_timeout)
        password = text.rstrip("\r\n")
        logins[name] = MirrorLogin(ConnectionStartOk(response=f"\0{each.user}\0{password}".encode()), each.vhost)
    return dialers, logins


def differences(old: Config, new: Config) -> tuple[str, ...]:
    """Return the keys that differ and are not applied."""
    found = [each for each in _differences(old, new, "") if not APPLIED.match(each)]
    known = {each.address for each in old.listen}
    if any(each.passed_name is not None and each.address not in known for each in new.listen):
        found.append("listen")  # systemd passes sockets at the start
    if _moves_broker(old, new):
        found.append("upstream")
    return tuple(found)


def _moves_broker(old: Config, new: Config) -> bool:
    """Whether only one of the configs has the integrated broker, which starts and ends with the process."""
    return (old.upstream == INTEGRATED) != (new.upstream == INTEGRATED)


def _differences(old: Any, new: Any, path: str) -> list[str]:
    if old == new:
        return []
    if isinstance(old, msgspec.Struct) and type(old) is type(new):
        names = old.__struct_fields__
        return [
            found
            for name in names
            for found in _differences(getattr(old, name), getattr(new, name), f"{path}.{name}".lstrip("."))
        ]
    if isinstance(old, tuple) and isinstance(new, tuple) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [found for place, (one, other) in pairs for found in _differences(one, other, f"{path}[{place}]")]
    return [path]
