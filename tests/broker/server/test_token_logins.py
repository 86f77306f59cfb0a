"""Logins by tokens: which are refused, and which are remembered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from amqproxy.broker.access.users import LoginRefused
from amqproxy.broker.server import token_logins as module
from amqproxy.broker.server.from_config import configured
from amqproxy.broker.server.token_logins import TokenLogins, token_logins
from amqproxy.configuration.config import BrokerConfig, ConfigError
from amqproxy.configuration.token_config import BrokerTokens
from amqproxy.rabbitmq.profile import NEWEST, PROFILES
from amqproxy.tokens.key_set import KeySet
from tests.proxy.logins.attempts import until
from tests.tokens.fixtures import issuer
from tests.tokens.issuer import Issuer

__all__ = ["issuer"]


@pytest.fixture
def logins(issuer: Issuer, tmp_path: Path) -> TokenLogins:
    file = tmp_path / "keys.json"
    file.write_bytes(issuer.key_set("rsa"))
    return token_logins(BrokerTokens(keys=str(file)), PROFILES[NEWEST])


def token(issuer: Issuer, **parts: Any) -> str:
    return issuer.token(**{"aud": "rabbitmq", "scope": "rabbitmq.tag:management", **parts})


async def test_a_token_has_a_user(logins: TokenLogins, issuer: Issuer) -> None:
    user = await logins.user(token(issuer))
    assert (user.name, user.tags) == ("orders", ("management",))
    assert 0 < user.lifetime <= 300


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"exp": 1}, "it has expired"),
        ({"aud": "other"}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"aud": {"a": 1}}, "another audience"),
        ({"header": {"kid": None}}, "does not name its key"),
        ({"kid": "other"}, "unknown key"),
        ({"sub": "x" * 300}, "not a name"),
        ({"scope": " ".join(f"rabbitmq.{number}" for number in range(3000))}, "longer than|scopes"),
    ],
)
async def test_a_wrong_token_is_refused(
    logins: TokenLogins, issuer: Issuer, parts: dict[str, Any], reason: str
) -> None:
    with pytest.raises(LoginRefused, match=reason):
        await logins.user(token(issuer, **parts))


@pytest.mark.parametrize("text", ["", "garbage", "eyJ.e.x", "é" * 10, "\udce9"])
async def test_what_is_not_a_token_is_refused(logins: TokenLogins, text: str) -> None:
    with pytest.raises(LoginRefused):
        await logins.user(text)
    with pytest.raises(LoginRefused):
        logins.log_in(text)


async def test_users_of_requests_are_remembered_and_those_of_connections_are_not(
    logins: TokenLogins, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_REMEMBERED", 2)
    first, *others = (token(issuer, sub=str(number)) for number in range(3))
    user = await logins.user(first)
    assert await logins.user(first) is user
    assert logins.log_in(first) is not logins.log_in(first)
    for each in others:
        await logins.user(each)
    assert await logins.user(first) is not user


async def test_remembered_users_are_bounded_by_the_lengths_of_their_tokens_and_end_with_them(
    logins: TokenLogins, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = (token(issuer, sub=str(number)) for number in range(3))
    monkeypatch.setattr(module, "MOST_CHARACTERS", len(first) + len(others[0]))
    user = await logins.user(first)
    await logins.user(others[0])
    assert await logins.user(first) is user
    for each in others:
        await logins.user(each)
    assert len(logins._remembered) == 2
    assert await logins.user(first) is not user
    user.expires_at = 0.0
    for known, _ in logins._remembered.values():
        known.expires_at = 0.0
    await logins.user(others[0])
    assert len(logins._remembered) == 1


async def test_a_slow_issuer_delays_one_request_with_an_unknown_key(
    logins: TokenLogins, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await logins.user(token(issuer))  # the keys are there
    answer, outcomes = trio.Event(), []

    async def keys_for(self: KeySet, kid: str | None, algorithm: str) -> list[Any]:
        if kid == "other":
            await answer.wait()
        return self.known(kid, algorithm)

    async def ask(kid: str) -> None:
        try:
            outcomes.append((await logins.user(token(issuer, kid=kid, sub=kid))).name)
        except LoginRefused:
            outcomes.append("refused")

    monkeypatch.setattr(KeySet, "keys_for", keys_for)
    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(ask, "other")
        await trio.testing.wait_all_tasks_blocked()
        assert outcomes == ["refused"] * 7
        await ask("rsa")
        assert outcomes[7:] == ["rsa"]
        answer.set()
    assert outcomes[8:] == ["refused"]


async def test_the_audience_may_be_left_unchecked(issuer: Issuer, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(issuer.key_set("rsa"))
    logins = token_logins(BrokerTokens(keys=str(file), verify_aud=False), PROFILES[NEWEST])
    assert (await logins.user(token(issuer, aud=None))).name == "orders"


def test_an_authority_that_cannot_be_read_is_told() -> None:
    with pytest.raises(ConfigError, match=r"broker\.tokens\.ca: none\.pem"):
        token_logins(BrokerTokens(keys="https://localhost/keys", ca="none.pem"), PROFILES[NEWEST])


async def test_a_configured_broker_takes_tokens_in_place_of_passwords(issuer: Issuer, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(issuer.key_set("rsa"))
    async with configured(BrokerConfig(tokens=BrokerTokens(keys=str(file)))) as server:
        broker = server.broker

        def is_accepted(password: str) -> bool:
            try:
                return broker.log_in("any", password, is_loopback=False).name == "orders"
            except LoginRefused:
                return False

        await until(lambda: is_accepted(token(issuer)))
        assert not is_accepted(token(issuer, exp=1))
        assert not is_accepted("orders")
        with pytest.raises(LoginRefused, match="only connect via localhost"):
            broker.log_in("", token(issuer, sub="guest"), is_loopback=False)
        await trio.lowlevel.checkpoint()
