"""Tokens by client credentials, from a local issuer."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from amqproxy.configuration.login_config import TokenGrant
from amqproxy.proxy.logins.credential import CredentialFailed
from amqproxy.proxy.logins.renewed_token import NewToken
from amqproxy.proxy.logins.token_issuer import TokenIssuer
from amqproxy.rules.rewriting.secret import Secret
from amqproxy.tokens.web_client import WebClient
from tests.tokens.issuer import Issuer
from tests.tokens.web_service import Reply, WebService

CANARY = "canary-9d1f"


def issuer_at(service: WebService, tmp_path: Path, **more: Any) -> TokenIssuer:
    secret = tmp_path / "secret"
    if not secret.exists():
        secret.write_text(f"{CANARY}/ü\n")
    grant = TokenGrant(url=f"{service.url}/token", client_id="a:b", client_secret_file=str(secret), **more)
    return TokenIssuer(grant, WebClient(), now=lambda: 1000.0)


def replying(service: WebService, *, status: int = 200, **fields: Any) -> None:
    service.answer = lambda _: Reply(json.dumps(fields).encode(), status)


async def test_a_token_is_requested(service: WebService, tmp_path: Path) -> None:
    replying(service, access_token="t", token_type="Bearer", expires_in=60)
    issuer = issuer_at(service, tmp_path, scope="a b", audience="rabbit")
    assert await issuer.fetch() == NewToken(Secret("t"), 1060.0)
    (request,) = service.requests
    assert request.form == {"grant_type": "client_credentials", "scope": "a b", "audience": "rabbit"}
    assert b64decode(request.headers["authorization"].removeprefix("Basic ")) == f"a%3Ab:{CANARY}%2F%C3%BC".encode()
    (tmp_path / "secret").write_text("new")
    await issuer.fetch()
    assert b64decode(service.requests[1].headers["authorization"].removeprefix("Basic ")) == b"a%3Ab:new"


@pytest.mark.parametrize(
    ("expires_in", "claims", "expected"),
    [
        ("60", {}, 1060.0),
        (60, {"exp": 1030}, 1030.0),
        (None, {"exp": 1030}, 1030.0),
        (None, {"exp": None}, float("inf")),
    ],
)
async def test_a_token_expires_by_the_earlier_word(
    service: WebService, tmp_path: Path, issuer: Issuer, expires_in: Any, claims: dict[str, Any], expected: float
) -> None:
    token = issuer.token(**({"exp": None} | claims))
    replying(service, access_token=token, expires_in=expires_in)
    assert (await issuer_at(service, tmp_path).fetch()).expires_at == expected


@pytest.mark.parametrize(
    ("status", "fields", "reason"),
    [
        (401, {"error": "invalid_client", "error_description": CANARY}, "status 401 and the error invalid_client$"),
        (400, {"error": f"{CANARY} "}, "status 400$"),
        (500, {}, "status 500$"),
        (302, {}, "status 302$"),
        (200, {"token": CANARY}, "not a JSON object with an `access_token`$"),
        (200, {"access_token": "t", "expires_in": CANARY}, "not a JSON object with an `access_token`$"),
        (200, {"access_token": "t", "expires_in": "nan"}, "`expires_in` is not a number$"),
        (200, {"access_token": f"{CANARY}\n"}, "not a printable text of at most 65536 characters$"),
        (200, {"access_token": ""}, "not a printable text"),
        (200, {"access_token": CANARY * 10_000}, "not a printable text"),
    ],
)
async def test_what_is_no_token_is_a_failure_without_what_was_sent(
    service: WebService, tmp_path: Path, status: int, fields: dict[str, Any], reason: str
) -> None:
    replying(service, status=status, **fields)
    with pytest.raises(CredentialFailed, match=reason) as found:
        await issuer_at(service, tmp_path).fetch()
    assert CANARY not in str(found.value)
    assert found.value.__cause__ is None


async def test_a_secret_that_is_gone_is_a_failure(service: WebService, tmp_path: Path) -> None:
    issuer = issuer_at(service, tmp_path)
    (tmp_path / "secret").unlink()
    with pytest.raises(CredentialFailed, match="secret cannot be read: No such file"):
        await issuer.fetch()
    assert not service.requests
