"""Tokens whose claims are returned, with and without waiting for the issuer's keys."""

from __future__ import annotations

import pytest
import trio

from amqproxy.configuration.token_config import TokenKeys
from amqproxy.tokens.key_set import KeySet
from amqproxy.tokens.token_claims import WrongToken
from amqproxy.tokens.token_verifier import KeysMissing, TokenVerifier
from amqproxy.tokens.web_client import WebClient
from tests.proxy.logins.attempts import until
from tests.tokens.issuer import Issuer
from tests.tokens.web_service import Reply, WebService


def verifier(service: WebService) -> TokenVerifier:
    config = TokenKeys(keys=service.url, leeway=0)
    return TokenVerifier(config, KeySet(config, WebClient()), now=lambda: 1000.0)


async def test_a_valid_token_has_claims(service: WebService, issuer: Issuer) -> None:
    service.answer = lambda _: Reply(issuer.key_set())
    claims = await verifier(service).claims(issuer.token(exp=1001, nbf=1000, scope=["a"]))
    assert claims["scope"] == ["a"]


@pytest.mark.parametrize("times", [{"exp": 1000, "nbf": None}, {"exp": 2000, "nbf": 1001}])
async def test_without_leeway_its_times_are_exact(service: WebService, issuer: Issuer, times: dict[str, int]) -> None:
    service.answer = lambda _: Reply(issuer.key_set())
    with pytest.raises(WrongToken):
        await verifier(service).claims(issuer.token(**times))


async def test_keys_that_are_not_known_are_fetched_for_the_next_token(service: WebService, issuer: Issuer) -> None:
    service.answer = lambda _: Reply(issuer.key_set("rsa"))
    found = verifier(service)
    token = issuer.token(exp=2000, nbf=None)
    with pytest.raises(KeysMissing, match="the keys have not been fetched"):
        found.claims_by_known_keys(token)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(found.keys.run)
        await until(lambda: not found.keys.fault)
        assert found.claims_by_known_keys(token)["sub"] == "orders"
        with pytest.raises(WrongToken, match="unknown key"):
            found.claims_by_known_keys(issuer.token("other", exp=2000))
        nursery.cancel_scope.cancel()
