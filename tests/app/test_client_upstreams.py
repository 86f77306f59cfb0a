"""Upstream groups of a config, before and after a reload."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from amqproxy.app.client_upstreams import check_passwords, dialers_of, routes_of
from amqproxy.configuration.config import Config, ConfigError
from amqproxy.configuration.config_file import parse
from amqproxy.proxy.upstreams.routes import Routes
from amqproxy.rules.context import Client

GROUPS = """
upstream = "blue"

[upstreams.blue]
zone = "z"
tls = { verify = false }
members = [
  { address = "a:1", weight = 2 },
  { address = "b:2", zone = "z", priority = 1, tls = { verify = false, server_name = "b.example.com" } },
]

[upstreams.green]
address = "c:3"
proxy_protocol = true

[upstreams.copies]
address = "d:4"
password_env = "P"

[[listen]]
address = ":5671"
upstream = "green"
"""


def config(text: str) -> Config:
    return parse(text, Path("a.toml"))


def members(routes: Routes) -> dict[str, list[str]]:
    return {group.name: [member.address for member in group.members] for group in routes.groups}


async def test_a_single_upstream_is_a_group_with_one_member() -> None:
    assert members(routes_of(Config())) == {"main": ["127.0.0.1:5672"]}


async def test_groups_have_their_members_settings() -> None:
    routes = routes_of(config(GROUPS))
    assert members(routes) == {"blue": ["a:1", "b:2"], "green": ["c:3"]}
    assert routes.group_for(Client(), ":5671").name == "green"
    assert routes.group_for(Client(), ":5672").name == "blue"
    first, second = routes.default.members
    assert (first.weight, first.zone, second.zone, second.priority) == (2, "", "z", 1)
    assert first.dial.upstream.tls.server_name is None
    assert second.dial.upstream.tls.server_name == "b.example.com"
    assert [dialer.upstream.proxy_protocol for dialer in dialers_of(routes)] == [False, False, True]


async def test_members_that_stay_keep_their_health_and_clients() -> None:
    before = routes_of(config(GROUPS))
    kept, gone = before.default.members
    kept.note_connected()
    kept.eject(trio.current_time(), 100.0)
    text = GROUPS.replace('"b:2"', '"e:5"').replace("weight = 2", "weight = 9")
    after = routes_of(config(text), before=before)
    assert after.default.members[0] is kept
    assert (kept.weight, kept.connections, kept.ejections) == (9, 1, 1)
    assert after.default.member("b:2") is None
    assert gone.connections == 0
    changed = routes_of(config(GROUPS.replace("verify = false }\n", "verify = true }\n", 1)), before=before)
    assert changed.default.members[0] is not kept


async def test_addresses_of_a_name_survive_a_reload() -> None:
    text = GROUPS.replace('address = "a:1", weight = 2', 'address = "a:1", resolve = "all"')
    before = routes_of(config(text))
    assert before.default.resolve("a:1", ["10.0.0.1:1", "10.0.0.2:1"])
    member = before.default.member("10.0.0.1:1")
    assert member is not None
    assert member.dial.upstream.tls.server_name == "a"
    after = routes_of(config(text), before=before)
    assert members(after)["blue"] == ["10.0.0.1:1", "10.0.0.2:1", "b:2"]
    assert after.default.member("10.0.0.1:1") is member


async def test_passwords_of_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    text = GROUPS.replace('zone = "z"\n', 'check = { kind = "amqp", user = "u", password_env = "PROBE" }\n', 1)
    with pytest.raises(ConfigError, match=r"upstreams\.blue\.check: the environment has no variable PROBE"):
        check_passwords(config(text))
    monkeypatch.setenv("PROBE", "secret\n")
    assert check_passwords(config(text)) == {"blue": "secret"}


async def test_upstreams_with_a_login_are_groups_where_switches_may_be() -> None:
    text = '[upstreams.spare]\nmembers = [{ address = "e:5" }]\npassword_env = "P"\n'
    assert members(routes_of(config(text))) == {"main": ["127.0.0.1:5672"]}
    switching = '[switching]\nstate = "switches.json"\n'
    assert members(routes_of(config(text + switching))) == {"main": ["127.0.0.1:5672"], "spare": ["e:5"]}
