"""No password, token or secret of any source gets into a log line, a metric, an error or a repr."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio
from prometheus_client import generate_latest

from amqproxy.configuration.config import ConfigError
from amqproxy.configuration.config_file import read
from amqproxy.proxy.logins.attempt import LoginDenied
from amqproxy.proxy.logins.credential import CredentialFailed
from amqproxy.proxy.logins.logins import Logins
from amqproxy.taps.metrics import Metrics
from tests.logged import log
from tests.proxy.logins.attempts import attempt, until, write_users
from tests.tokens.issuer import Issuer
from tests.tokens.web_service import Reply, WebService

__all__ = ["log"]

CANARIES = [f"canary-{number}-5f3a" for number in range(8)]
PASSWORD, GUESS, FOR_BROKERS, SECRET, TOKEN, OWN, IN_ENVIRONMENT, PLAIN = CANARIES

CONFIG = """
[[listen]]
[logins.all]
users_file = "users.toml"
callback = {{ url = "{url}/user", vhost_url = "{url}/vhost" }}
tokens = {{ keys = "{url}/keys" }}
failure_delay = 0
[upstream.login]
grant = {{ url = "{url}/token", client_id = "proxy", client_secret_file = "secret" }}
[upstreams.file]
login = {{ user = "proxy", password_file = "own" }}
[upstreams.environment]
login = {{ user = "proxy", password_env = "OWN" }}
[upstreams.token]
login = {{ token_file = "token" }}
"""


@pytest.fixture
def logins(tmp_path: Path, service: WebService, monkeypatch: pytest.MonkeyPatch) -> Logins:
    monkeypatch.setenv("OWN", IN_ENVIRONMENT)
    users = write_users(tmp_path / "users.toml", orders=PASSWORD)
    with users.open("a") as opened:
        opened.write("upstream_user = 'them'\nupstream_password_file = 'them'\n")
    for name, text in {"them": FOR_BROKERS, "secret": SECRET, "own": OWN, "token": TOKEN}.items():
        (tmp_path / name).write_text(text)
    return Logins(read(CONFIG.format(url=service.url), tmp_path / "amqproxy.toml"), Metrics())


def replies(issuer: Issuer) -> Iterator[Any]:
    """Services that answer well, and those that send back what they were sent."""
    good = {
        "/keys": issuer.key_set(),
        "/token": json.dumps({"access_token": TOKEN, "expires_in": 60}).encode(),
        "/user": b"deny",
        "/vhost": b"allow",
    }
    yield lambda request: Reply(good[request.path])
    yield lambda request: Reply(json.dumps(request.form | request.headers).encode(), 500)
    yield lambda request: Reply(json.dumps({"keys": [request.headers], "error": SECRET}).encode())
    yield lambda request: Reply(closes=True)


async def test_whatever_happens_no_secret_is_shown(
    logins: Logins, service: WebService, issuer: Issuer, log: list[Any], tmp_path: Path
) -> None:
    shown: list[str] = []
    check = logins.checks["all"]
    used = issuer.token(jti=TOKEN)
    signatures = [used, issuer.token("other", exp=1), issuer.token(header={"kid": "unknown"})]
    for number, answer in enumerate(replies(issuer)):
        service.answer = answer
        check.forget()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(logins.run)
            for user, password in [("orders", PASSWORD), ("orders", GUESS), ("stock", GUESS)] + [
                ("", token) for token in signatures
            ]:
                given = attempt(user, password)
                shown.append(repr(given))
                try:
                    identity = await check.check(given)
                    shown.append(repr(identity))
                    await check.check_vhost(identity, "/", "10.0.0.1")
                except LoginDenied as denied:
                    shown += traceback.format_exception(denied)
            for source in logins.credentials.values():
                try:
                    shown.append(repr(await source.current()))
                except CredentialFailed as error:
                    shown += traceback.format_exception(error)
            await until(lambda: sum(line["event"] == "token not renewed" for line in log) >= number)  # noqa: B023
            nursery.cancel_scope.cancel()
    (tmp_path / "users.toml").write_text(f"[users.orders]\npassword = '{PLAIN}'\n")
    with suppress(ConfigError):
        logins.read(read(CONFIG.format(url=service.url).replace('"proxy"', '"another"'), tmp_path / "amqproxy.toml"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(logins.run)
        await until(lambda: any(line["event"] == "users not reloaded" for line in log))
        nursery.cancel_scope.cancel()
    shown += [repr(line) for line in log]
    shown += [repr(vars(part)) for part in (logins, check, *check.__dict__.values()) if hasattr(part, "__dict__")]
    shown += [repr(vars(source)) for source in logins.credentials.values()]
    shown.append(generate_latest(logins._metrics.registry).decode())
    text = "\n".join(shown)
    assert "token not renewed" in text
    assert "the password is wrong" in text
    assert 'amqproxy_logins_total{outcome="failed",source="callback"}' in text
    hidden = [*CANARIES, *(part for token in signatures for part in token.split(".")[1:]), "argon2id$v"]
    assert [secret for secret in hidden if secret in text] == []
