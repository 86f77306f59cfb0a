"""Tokens that are accepted and refused."""

from __future__ import annotations

import time
from typing import Any

import pytest

from amqproxy.configuration.login_config import LoginConfig
from amqproxy.configuration.token_config import LoginTokens
from amqproxy.proxy.logins.attempt import LoginDenied
from amqproxy.proxy.logins.configured_login import ConfiguredLogin
from amqproxy.proxy.logins.token_check import TokenCheck
from amqproxy.tokens.key_set import KeySet
from amqproxy.tokens.web_client import WebClient
from tests.proxy.logins.attempts import Counts, attempt
from tests.tokens.issuer import Issuer
from tests.tokens.web_service import Reply, WebService


@pytest.fixture
def config(service: WebService, issuer: Issuer) -> LoginTokens:
    service.answer = lambda _: Reply(issuer.key_set("rsa", "ec", "ed"))
    return LoginTokens(
        keys=service.url,
        issuer="https://issuer",
        audience="amqp",
        algorithms=("RS256", "PS256", "ES256", "EdDSA", "Ed25519"),
    )


@pytest.fixture
def check(config: LoginTokens) -> TokenCheck:
    return TokenCheck(config, KeySet(config, WebClient()))


@pytest.mark.parametrize(
    ("kid", "alg", "more"),
    [
        ("rsa", "RS256", {}),
        ("rsa", "PS256", {}),
        ("ec", "ES256", {}),
        ("ed", "Ed25519", {}),
        ("rsa", "RS256", {"aud": ["other", "amqp"], "nbf": None}),
        ("rsa", "RS256", {"header": {"kid": None}}),
        ("rsa", "RS256", {"header": {"typ": "at+jwt", "x5t": "x", "nonce": "n"}}),
    ],
)
async def test_a_right_token_names_the_user(
    check: TokenCheck, issuer: Issuer, kid: str, alg: str, more: dict[str, Any]
) -> None:
    identity, remembered = await check.check(issuer.token(kid, alg, **more))
    assert (identity.user, identity.source) == ("orders", "token")
    assert remembered <= 310
    assert time.time() < identity.expires_at < time.time() + 311


async def test_clocks_may_differ_a_little(config: LoginTokens, issuer: Issuer) -> None:
    token = issuer.token(exp=2000, nbf=1000)
    for now, is_right in [(980, False), (991, True), (2009, True), (2020, False)]:
        check = TokenCheck(config, KeySet(config, WebClient()), now=lambda now=now: float(now))  # type: ignore[misc]
        try:
            identity, remembered = await check.check(token)
        except LoginDenied:
            assert not is_right, now
        else:
            assert is_right, now
            assert identity.expires_at == 2010
            assert remembered == 2010 - now


@pytest.mark.parametrize(
    ("kid", "alg", "more", "reason"),
    [
        ("rsa", "RS256", {"exp": 1}, "it has expired"),
        ("rsa", "RS256", {"exp": None}, "it has no `exp`"),
        ("rsa", "RS256", {"exp": "soon"}, "its `exp` is not a number"),
        ("rsa", "RS256", {"nbf": 9e9}, "it is not valid before a later time"),
        ("rsa", "RS256", {"iss": "https://other"}, "its issuer is another one"),
        ("rsa", "RS256", {"iss": None}, "its issuer is another one"),
        ("rsa", "RS256", {"aud": "amqps"}, "it is for another audience"),
        ("rsa", "RS256", {"aud": None}, "it is for another audience"),
        ("rsa", "RS256", {"sub": None}, "its claim `sub` is not a name"),
        ("rsa", "RS256", {"sub": 5}, "its claim `sub` is not a name"),
        ("rsa", "RS256", {"sub": "a\nlevel=error"}, "its claim `sub` is not a name"),
        ("rsa", "RS256", {"sub": "x" * 256}, "its claim `sub` is not a name"),
        ("rsa", "RS384", {}, "its algorithm is not one of `algorithms`"),
        ("rsa", "RS256", {"header": {"crit": ["exp"], "exp": 1}}, "extensions that must be understood"),
        ("other", "RS256", {}, "it is signed with an unknown key"),
        ("other", "RS256", {"header": {"kid": "rsa"}}, "its signature is wrong"),
        ("other", "RS256", {"header": {"kid": "ec"}}, "it is signed with an unknown key"),
        ("other", "RS256", {"header": {"kid": None}}, "its signature is wrong"),
        ("rsa", "RS256", {"sub": "x" * 20_000}, "it is longer than 16384 characters"),
    ],
)
async def test_a_wrong_token_is_refused(
    check: TokenCheck, issuer: Issuer, kid: str, alg: str, more: dict[str, Any], reason: str
) -> None:
    token = issuer.token(kid, alg, **more)
    with pytest.raises(LoginDenied, match=reason) as found:
        await check.check(token)
    assert not found.value.is_failure
    assert token[:40] not in str(found.value)


async def test_a_token_without_a_signature_or_with_a_public_one_is_refused(check: TokenCheck, issuer: Issuer) -> None:
    token = issuer.token()
    head, claims, signature = token.split(".")
    none = "eyJhbGciOiJub25lIn0"  # {"alg":"none"}
    for wrong, reason in [
        (f"{none}.{claims}.", "algorithm is not one of"),
        (f"{none}.{claims}.{signature}", "algorithm is not one of"),
        (issuer.confused(), "algorithm is not one of"),
        (f"{head}.{claims}.", "signature is wrong"),
        (f"{head}.{claims}.{signature[:-4]}", "signature is wrong"),
        (f"{head}.{claims[:-4]}.{signature}", "signature is wrong"),
        ("eyJ.e.x", "not a JSON object|not base64"),
        ("eyJbGciOiJub25lIn0.e.x", "not a JSON object|not base64"),
    ]:
        with pytest.raises(LoginDenied, match=reason):
            await check.check(wrong)


async def test_without_keys_the_check_fails(check: TokenCheck, issuer: Issuer, service: WebService) -> None:
    service.answer = lambda _: Reply(status=503)
    with pytest.raises(LoginDenied, match="the key set cannot be read: the answer has the status 503") as found:
        await check.check(issuer.token())
    assert found.value.is_failure


async def test_a_password_that_is_a_token_is_checked_as_one(
    config: LoginTokens, check: TokenCheck, issuer: Issuer, counts: Counts
) -> None:
    login = ConfiguredLogin(LoginConfig(tokens=config, failure_delay=0), counts, tokens=check)
    assert (await login.check(attempt("", issuer.token()))).user == "orders"
    for password, reason in [("tulip", "the password is not a token"), (issuer.token(exp=1), "it has expired")]:
        with pytest.raises(LoginDenied, match=reason):
            await login.check(attempt("orders", password))
    assert counts.logins == [("token", "accepted"), ("none", "refused"), ("token", "refused")]
