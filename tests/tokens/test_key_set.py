"""Keys of an issuer: which are taken, and when they are fetched."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from joserfc.jwk import OctKey
from trio.testing import MockClock

from amqproxy.configuration.token_config import LoginTokens
from amqproxy.tokens.key_set import PAUSE, KeySet, public_keys
from amqproxy.tokens.web_client import WebFailed
from tests.proxy.logins.attempts import until
from tests.tokens.issuer import Issuer


class Fetched(KeySet):
    """A key set whose document is that of a function."""

    def __init__(self, document: Callable[[], bytes], refresh: float = 600.0) -> None:
        super().__init__(LoginTokens(keys="https://issuer/keys", refresh=refresh), None)
        self.document = document
        self.fetches = 0

    async def _document(self) -> bytes:
        self.fetches += 1
        await trio.sleep(0.5)
        return self.document()


async def test_an_unknown_key_is_fetched_but_not_by_each_token(autojump_clock: MockClock, issuer: Issuer) -> None:
    keys = Fetched(lambda: issuer.key_set("rsa"))
    changes: list[int] = []
    keys.on_change = lambda: changes.append(1)
    async with trio.open_nursery() as nursery:
        for number in range(1000):
            nursery.start_soon(keys.keys_for, f"unknown {number}", "RS256")
        nursery.start_soon(keys.keys_for, "rsa", "RS256")
    assert keys.fetches == 1
    keys.document = lambda: issuer.key_set("rsa", "other")
    assert not await keys.keys_for("other", "RS256")
    await trio.sleep(PAUSE)
    assert [key.kid for key in await keys.keys_for("other", "RS256")] == ["other"]
    assert keys.fetches == 2
    assert len(changes) == 2
    assert len(await keys.keys_for(None, "RS256")) == 2
    assert not await keys.keys_for(None, "ES256")
    assert keys.fetches == 2


async def test_a_failure_keeps_the_keys(autojump_clock: MockClock, issuer: Issuer) -> None:
    def fail() -> bytes:
        raise WebFailed("down")

    keys = Fetched(fail, refresh=600.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keys.run)
        await trio.sleep(61)
        assert keys.fault == "the key set cannot be read: down"
        assert keys.fetches == 4
        keys.document = lambda: issuer.key_set("rsa")
        await trio.sleep(15)
        assert keys.fetches == 5
        assert await keys.keys_for("rsa", "RS256")
        keys.document = lambda: b"<html>"
        await trio.sleep(600)
        assert keys.fault == "the key set cannot be read: a part of it is not a JSON object"
        assert await keys.keys_for("rsa", "RS256")
        keys.document = lambda: issuer.key_set("other")
        await trio.sleep(16)
        assert not keys.fault
        assert not await keys.keys_for("rsa", "RS256")
        nursery.cancel_scope.cancel()


async def test_keys_may_be_in_a_file(tmp_path: Path, issuer: Issuer) -> None:
    path = tmp_path / "keys.json"
    keys = KeySet(LoginTokens(keys=str(path), refresh=0.01), None)
    assert not await keys.keys_for("rsa", "RS256")
    assert "No such file" in keys.fault
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keys.run)
        path.write_bytes(issuer.key_set("rsa"))
        await until(lambda: not keys.fault)
        nursery.cancel_scope.cancel()
    assert await keys.keys_for("rsa", "RS256")


def test_only_public_keys_for_signatures_are_taken(issuer: Issuer) -> None:
    entries = json.loads(issuer.key_set())["keys"]
    secret = OctKey.generate_key(256).as_dict(private=True)
    broken = [
        secret,
        {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
        {"kty": "RSA", "n": "A" * 4000, "e": "AQAB"},
        {"kty": "RSA", "n": 5, "e": "AQAB"},
        {"kty": "EC", "crv": "P-256", "x": "", "y": ""},
        {"kty": "PQ"},
        "key",
    ]
    found = public_keys(json.dumps({"keys": broken + entries}).encode())
    assert [key.kid for key in found] == ["rsa", "other", "ec", "ed"]
    for document in (broken, [], "keys"):
        with pytest.raises(ValueError, match=r"no (public key|list `keys`)"):
            public_keys(json.dumps({"keys": document}).encode())


async def test_a_key_is_used_for_its_kind_of_signature_only(issuer: Issuer, autojump_clock: MockClock) -> None:
    entries = json.loads(issuer.key_set())["keys"]
    entries[1]["use"] = "enc"
    keys = Fetched(lambda: json.dumps({"keys": entries}).encode())
    for algorithm, expected in [
        ("RS256", ["rsa"]),
        ("PS256", ["rsa"]),
        ("ES256", ["ec"]),
        ("ES384", []),
        ("EdDSA", ["ed"]),
    ]:
        assert [key.kid for key in await keys.keys_for(None, algorithm)] == expected, algorithm


async def test_an_unknown_key_that_nobody_waits_for_is_fetched_soon(autojump_clock: MockClock, issuer: Issuer) -> None:
    keys = Fetched(lambda: issuer.key_set("rsa"), refresh=600.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keys.run)
        await trio.sleep(100)
        assert keys.known("rsa", "RS256")
        keys.document = issuer.key_set
        assert not keys.known("other", "RS256")
        await trio.sleep(1)
        assert keys.known("other", "RS256")
        assert keys.fetches == 2
        nursery.cancel_scope.cancel()
