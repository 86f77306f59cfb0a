"""All checks of a config: built, reloaded, and refused with place and remedy."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import trio

from amqproxy.configuration import extras
from amqproxy.configuration.config import Config, ConfigError
from amqproxy.configuration.config_file import read
from amqproxy.configuration.login_config import LoginConfig
from amqproxy.proxy.logins import user_directory
from amqproxy.proxy.logins.logins import Logins, login_checks
from amqproxy.taps.metrics import Metrics
from tests.proxy.logins.attempts import Counts, attempt, until, write_users
from tests.real.ports import free_port


def config_of(path: Path, text: str) -> Config:
    return read("[[listen]]\n" + text, path / "amqproxy.toml")


def test_a_users_file_is_beside_the_config(tmp_path: Path) -> None:
    write_users(tmp_path / "users.toml", orders="tulip")
    config = config_of(tmp_path, "[logins.apps]\nusers_file = 'users.toml'")
    assert list(login_checks(config, Counts())) == ["apps"]


def test_what_is_wrong_is_placed(tmp_path: Path) -> None:
    config = config_of(tmp_path, "[logins.apps]\nusers_file = 'users.toml'")
    with pytest.raises(ConfigError, match=r"^logins.apps.users_file: .*/users.toml cannot be read: No such file"):
        login_checks(config, Counts())
    (tmp_path / "users.toml").write_text("[users.a]\npassword = 'a'")
    with pytest.raises(ConfigError, match=r"^logins.apps.users_file: .*/users.toml:2: users.a.password: it is not"):
        login_checks(config, Counts())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mechanisms = ['ANONYMOUS']", "the mechanism ANONYMOUS needs `anonymous`"),
        ("mechanisms = ['EXTERNAL']\nanonymous = {user = 'a', networks = ['::/0']}", "and vice versa"),
        ("mechanisms = ['ANONYMOUS']\nanonymous = {user = 'a', networks = ['x']}", "`x` is neither an IP address"),
        ("mechanisms = ['ANONYMOUS']\nanonymous = {user = 'a', networks = []}", "networks"),
    ],
)
def test_who_anonymous_clients_are_must_be_said(text: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=reason):
        config_of(tmp_path, f"[logins.apps]\n{text}")


def test_without_the_extra_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_users(tmp_path / "users.toml", orders="tulip")
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(
        ConfigError,
        match=r"^logins.apps.users_file: needs argon2, which is not installed: run `pip install .amqproxy\[logins\]",
    ):
        login_checks(config_of(tmp_path, "[logins.apps]\nusers_file = 'users.toml'"), Counts())


async def test_a_reload_keeps_what_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_directory, "INTERVAL", 0.005)
    write_users(tmp_path / "users.toml", orders="tulip")
    write_users(tmp_path / "others.toml", stock="rose")
    first = config_of(tmp_path, "[logins.apps]\nusers_file = 'users.toml'\n[logins.old]\nmechanisms = ['EXTERNAL']")
    found = Logins(first, Metrics())
    apps = found.checks["apps"]
    await apps.check(attempt("orders", "tulip"))
    changed = {"apps": first.logins["apps"], "new": LoginConfig(users_file=str(tmp_path / "others.toml"))}
    checks = found.read(msgspec.structs.replace(first, logins=changed))
    assert set(found.checks) == {"apps", "old"}
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(found.run)
            await trio.lowlevel.checkpoint()
            login = found.by_name["apps"]
            found.apply(checks)
            assert found.checks["apps"] is apps
            assert found.by_name["apps"] is login
            assert set(found.checks) == set(found.by_name) == {"apps", "new"}
            assert len(apps._memory) == 0
            write_users(tmp_path / "others.toml", another="rose")
            new = found.checks["new"]
            assert new._users is not None
            users = new._users
            await until(lambda: "another" in users.users.by_name)
            nursery.cancel_scope.cancel()


async def test_renewals_are_counted_by_upstream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s")
    issuer = f"http://127.0.0.1:{free_port()}/token"
    config = config_of(
        tmp_path,
        f"""
        [upstream.login]
        user = "proxy"
        grant = {{ url = "{issuer}", client_id = "proxy", client_secret_env = "SECRET" }}
        """,
    )
    found = Logins(config, Metrics())
    assert found.renewals("main") is None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(found.run)
        await until(lambda: found.renewals("main") == {"renewed": 0, "failed": 1})
        nursery.cancel_scope.cancel()
    assert found.renewals("another") is None
