"""What a proxy takes over from its config while it runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
import trio
import trustme
from msgspec.structs import replace
from structlog.testing import capture_logs
from trio.testing import wait_all_tasks_blocked

from amqproxy.app.client_upstreams import routes_of
from amqproxy.app.reload import Reloader, differences, mirror_upstreams
from amqproxy.configuration.config import (
    Config,
    ConfigError,
    Limits,
    ListenerConfig,
    LogConfig,
    MetricsConfig,
    ProxyProtocolConfig,
)
from amqproxy.configuration.tls_config import ClientTLS, ServerTLS
from amqproxy.configuration.upstream_config import NamedUpstream
from amqproxy.control.request_handler import NotReloaded
from amqproxy.proxy.mirroring.mirror_publisher import MirrorLogin
from amqproxy.proxy.upstream import Dialer
from amqproxy.proxy.upstreams.upstreams import Upstreams
from amqproxy.rules.access.allow import Allow
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.taps.metrics import Metrics


@pytest.fixture(autouse=True)
def log() -> Iterator[list[structlog.typing.EventDict]]:
    """What is logged, as it comes."""
    with capture_logs() as events:
        yield events


class Mirrors:
    """What takes copies, and remembers where to."""

    def __init__(self) -> None:
        self.dials: Mapping[str, Dialer] = {}
        self.logins: Mapping[str, MirrorLogin] = {}

    def replace(self, dials: Mapping[str, Dialer], logins: Mapping[str, MirrorLogin]) -> None:
        self.dials, self.logins = dials, logins


class Place:
    """A proxy whose config is read again."""

    def __init__(self, config: Config) -> None:
        self.rules = RuleSet(config.rules)
        self.mirrors = Mirrors()
        self.found: Config | Exception = config
        dialers, _ = mirror_upstreams(config)
        self.upstreams = Upstreams(routes_of(config), Metrics())
        server: Any = SimpleNamespace(rules=self.rules, apply_rules=self.apply_rules, upstreams=self.upstreams)
        self.server = server
        self.reloader = Reloader(config, self.reread, server, self.mirrors, dialers)  # type: ignore[arg-type]

    def apply_rules(self, rules: RuleSet) -> None:
        self.server.rules = rules

    def reread(self) -> Config:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> NamedUpstream:
    monkeypatch.setenv("COPY_PASSWORD", "secret")
    return NamedUpstream(address="127.0.0.1:5679", password_env="COPY_PASSWORD")


async def test_upstreams_of_mirrors_come_change_and_go(upstream: NamedUpstream, log: list[Any]) -> None:
    place = Place(Config(upstreams={"one": upstream, "two": upstream}))
    one = place.reloader._upstreams["one"]
    other = replace(upstream, address="127.0.0.1:5680")
    place.found = Config(upstreams={"one": upstream, "two": other, "three": upstream})
    assert await place.reloader.reload() == ()
    assert place.mirrors.dials["one"] is one
    assert {name: dial.address for name, dial in place.mirrors.dials.items()} == {
        "one": "127.0.0.1:5679",
        "two": "127.0.0.1:5680",
        "three": "127.0.0.1:5679",
    }
    assert place.mirrors.logins["three"].start.response == b"\0guest\0secret"
    assert next(line for line in log if line["event"] == "upstreams reloaded")["upstreams"] == "three, two"
    place.found = Config()
    assert await place.reloader.reload() == ()
    assert place.mirrors.dials == {}


async def test_what_needs_a_restart_is_named(log: list[Any]) -> None:
    place = Place(Config())
    place.found = Config(
        rules=(Allow(name="all"),),
        limits=Limits(connections=5, drain_timeout=1.0),
        log=LogConfig(level="debug"),
        metrics=MetricsConfig(address="127.0.0.1:0"),
    )
    restart = ("metrics", "log.level", "limits.connections", "limits.drain_timeout")
    assert await place.reloader.reload() == restart
    assert [rule.name for rule in place.server.rules.rules] == ["all"]
    [line] = [line for line in log if line["event"] == "restart needed"]
    assert line["changed"] == ", ".join(restart)


@pytest.mark.parametrize("fault", [ConfigError("rules[0]: no"), ValueError("rules[0]: no"), RecursionError("no")])
async def test_what_is_wrong_changes_nothing(fault: Exception, log: list[Any], upstream: NamedUpstream) -> None:
    place = Place(Config(rules=(Allow(name="all"),)))
    place.found = fault
    with pytest.raises(NotReloaded, match="no"):
        await place.reloader.reload()
    place.found = Config(upstreams={"one": replace(upstream, password_env="NOT_THERE")})
    with pytest.raises(NotReloaded, match=r"upstreams\.one: the environment has no variable NOT_THERE"):
        await place.reloader.reload()
    assert place.server.rules is place.rules
    assert place.mirrors.dials == {}
    assert [line["event"] for line in log] == ["rules not reloaded"] * 2


async def test_a_script_that_never_ends_is_given_up_and_the_next_reload_is_done(
    log: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amqproxy.app.reload.RELOAD_SECONDS", 0.2)
    place = Place(Config())
    is_stopped = threading.Event()

    def endless() -> Config:
        try:
            while True:
                pass
        finally:
            is_stopped.set()

    place.reloader._reread = endless
    with trio.fail_after(20):
        with pytest.raises(NotReloaded, match=r"take more than 0\.2 s to read"):
            await place.reloader.reload()
        place.reloader._reread = lambda: Config(rules=(Allow(name="a"),))
        assert await place.reloader.reload() == ()
    assert is_stopped.wait(20)
    assert [line["event"] for line in log] == ["rules not reloaded", "rules reloaded"]


async def test_a_disk_that_hangs_stops_no_traffic(log: list[Any]) -> None:
    """The file is read beside the loop, and what asked for it can be given up."""
    place = Place(Config())
    can_be_read = threading.Event()

    def reread() -> Config:
        assert can_be_read.wait(60)
        return Config(rules=(Allow(name="all"),))

    place.reloader._reread = reread
    try:
        with trio.move_on_after(0.05) as given_up:
            await place.reloader.reload()
        assert given_up.cancelled_caught
        assert place.server.rules is place.rules
        async with trio.open_nursery() as nursery:
            nursery.start_soon(place.reloader.reload)
            await wait_all_tasks_blocked()
            assert place.server.rules is place.rules
            can_be_read.set()
    finally:
        can_be_read.set()
    assert [rule.name for rule in place.server.rules.rules] == ["all"]


async def test_without_a_file_there_is_nothing_to_read() -> None:
    server: Any = SimpleNamespace(rules=RuleSet(()), upstreams=Upstreams(routes_of(Config()), Metrics()))
    with pytest.raises(NotReloaded, match="the proxy was started without a config file to reload"):
        await Reloader(Config(), None, server, Mirrors(), {}).reload()  # type: ignore[arg-type]


async def test_certificates_of_upstreams_are_read_again(
    tmp_path: Path, log: list[Any], upstream: NamedUpstream
) -> None:
    authority = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(str(authority))
    place = Place(Config(upstreams={"one": replace(upstream, tls=ClientTLS(ca=str(authority)))}))
    one = place.reloader._upstreams["one"]
    before = one._tls
    await place.reloader.reload()
    assert place.mirrors.dials["one"] is one
    assert one._tls is not before
    before = one._tls
    authority.write_text("no certificate")
    await place.reloader.reload()
    assert one._tls is before
    assert [line["event"] for line in log if line["log_level"] == "error"] == ["certificate not reloaded"]


def test_differences_are_paths() -> None:
    config = Config()
    assert differences(config, config) == ()
    two = (*config.listen, ListenerConfig(address="127.0.0.1:1"))
    assert differences(config, replace(config, listen=two, seed=3)) == ("seed",)
    assert differences(config, replace(config, rules=(Allow(name="a"),))) == ()
    tls = ServerTLS(certificate="a.pem", key="a.pem", client_ca="ca.pem")
    proxied = ProxyProtocolConfig(networks=("10.0.0.0/8",))
    listeners = [
        ListenerConfig(address="127.0.0.1:1"),
        ListenerConfig(tls=tls, unread="pass", handshakes_per_second=1),
        ListenerConfig(tls=replace(tls, client_ca=None), proxy_protocol=proxied, connections=1),
    ]
    configs = [replace(config, listen=(each,)) for each in listeners]
    assert differences(configs[0], configs[1]) == ()
    passed = replace(config, listen=(ListenerConfig(address="fd@further"),))
    assert differences(config, passed) == ("listen",)
    assert differences(configs[1], configs[2]) == ()
    changed = replace(config, rules=(Allow(name="a"),)), replace(config, rules=(Allow(name="b"),))
    assert differences(*changed) == ()
