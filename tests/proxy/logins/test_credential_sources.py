"""Sources of the proxy's credentials, as configured."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqproxy.configuration import extras
from amqproxy.configuration.config import Config, ConfigError
from amqproxy.configuration.config_file import read
from amqproxy.proxy.logins.credential import Credential
from amqproxy.proxy.logins.credential_sources import credential_sources
from amqproxy.proxy.logins.renewed_token import RenewedToken
from amqproxy.rules.rewriting.secret import Secret

UPSTREAMS = """
[upstream.login]
user = "proxy"
password_file = "password"
[upstreams.blue]
login = { user = "proxy", password_env = "BLUE" }
[upstreams.green.login]
grant = { url = "https://issuer/token", client_id = "proxy", client_secret_env = "SECRET" }
[upstreams.plain]
"""


def config_of(path: Path, text: str = UPSTREAMS) -> Config:
    return read("[[listen]]\n" + text, path / "amqproxy.toml")


@pytest.fixture(autouse=True)
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "password").write_text("tulip")
    monkeypatch.setenv("BLUE", "rose")
    monkeypatch.setenv("SECRET", "s")


async def test_each_upstream_with_a_login_has_one(tmp_path: Path) -> None:
    found = credential_sources(config_of(tmp_path), lambda *_: None, {})
    assert set(found) == {"main", "blue", "green"}
    assert await found["main"].source.current() == Credential("proxy", Secret("tulip"))
    assert await found["blue"].source.current() == Credential("proxy", Secret("rose"))
    assert isinstance(found["green"].source, RenewedToken)


def test_a_reload_keeps_what_is_the_same(tmp_path: Path) -> None:
    before = credential_sources(config_of(tmp_path), lambda *_: None, {})
    changed = config_of(tmp_path, UPSTREAMS.replace('client_id = "proxy"', 'client_id = "other"'))
    after = credential_sources(changed, lambda *_: None, before)
    assert after["green"] is not before["green"]
    assert after["blue"] is before["blue"]


@pytest.mark.parametrize(
    ("missing", "fault"),
    [
        ("password", r"^upstream.login: .*password cannot be read: No such file"),
        ("BLUE", "^upstreams.blue.login: the environment has no variable BLUE"),
        ("SECRET", "^upstreams.green.login: the environment has no variable SECRET"),
        ("", r'^upstreams.green.login: needs httpx2, .*: run `pip install "amqproxy\[logins\]"`'),
    ],
)
def test_what_is_missing_is_placed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, fault: str) -> None:
    config = config_of(tmp_path)
    if missing == "password":
        (tmp_path / "password").unlink()
    elif missing:
        monkeypatch.delenv(missing)
    else:
        monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=fault):
        credential_sources(config, lambda *_: None, {})
