"""Tokens from an OAuth 2 issuer, by client credentials (RFC 6749, section 4.4)."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote_plus

import msgspec
import trio

from amqproxy.configuration.login_config import TokenGrant
from amqproxy.configuration.resources import ConfigResources
from amqproxy.proxy.logins.credential import CredentialFailed
from amqproxy.proxy.logins.renewed_token import NewToken
from amqproxy.rules.rewriting.secret import Secret
from amqproxy.tokens.token_claims import expiry_of
from amqproxy.tokens.web_client import Answer, WebClient, WebFailed

MAX_TOKEN = 64 * 1024
"""Longest token, in characters: it has to fit in one frame."""


class _Granted(msgspec.Struct):
    access_token: str
    expires_in: float | str | None = None
    """Number of seconds; some issuers write it as a text."""


class _Refused(msgspec.Struct):
    error: str = ""


class TokenIssuer:
    """The token endpoint of an issuer. The client's secret is read for each request, since it may be replaced."""

    def __init__(self, grant: TokenGrant, client: WebClient, now: Callable[[], float] = time.time) -> None:
        self._grant = grant
        self._client = client
        self._now = now

    def secret(self) -> Secret:
        """Return the client's secret; raise `CredentialFailed`."""
        resources, grant = ConfigResources(Path()), self._grant
        try:
            if grant.client_secret_file:
                return Secret(resources.text(grant.client_secret_file).strip("\r\n"))
            return Secret(resources.variable(grant.client_secret_env))
        except ValueError as error:
            raise CredentialFailed(str(error)) from None

    async def fetch(self) -> NewToken:
        """Return a new token; raise `CredentialFailed`."""
        grant = self._grant
        secret = await trio.to_thread.run_sync(self.secret, abandon_on_cancel=True)
        form = {"grant_type": "client_credentials"}
        form |= {"scope": grant.scope} if grant.scope else {}
        form |= {"audience": grant.audience} if grant.audience else {}
        auth = quote_plus(grant.client_id), quote_plus(secret.reveal())  # RFC 6749, section 2.3.1
        asked = self._now()
        try:
            answer = await self._client.post(grant.url, form, grant.timeout, auth=auth)
        except WebFailed as error:
            raise CredentialFailed(f"the issuer gives no token: {error}") from None
        return _token(answer, asked)


def token_fault(token: object) -> str | None:
    """Return why something cannot be sent as a token; `None` if it can."""
    if isinstance(token, str) and 0 < len(token) <= MAX_TOKEN and token.isascii() and token.isprintable():
        return None
    return f"not a printable text of at most {MAX_TOKEN} characters"


def _token(answer: Answer, asked: float) -> NewToken:
    """Return the token in an answer to a request of that time; nothing else of the answer gets into an error."""
    if answer.status != 200:
        raise CredentialFailed(f"the issuer gives no token: its answer has the status {answer.status}{_why(answer)}")
    try:
        granted = msgspec.json.decode(answer.body, type=_Granted)
        expires_in = math.inf if granted.expires_in is None else float(granted.expires_in)
    except (ValueError, RecursionError):
        raise CredentialFailed("the issuer's answer is not a JSON object with an `access_token`") from None
    token = granted.access_token
    fault = token_fault(token)
    if fault is not None:
        raise CredentialFailed(f"the issuer's `access_token` is {fault}")
    if math.isnan(expires_in):
        raise CredentialFailed("the issuer's `expires_in` is not a number")
    return NewToken(Secret(token), min(asked + expires_in, expiry_of(token)))


def _why(answer: Answer) -> str:
    """Return the error code of an answer by RFC 6749, section 5.2, if it has one."""
    try:
        code = msgspec.json.decode(answer.body, type=_Refused).error
    except (ValueError, RecursionError):
        return ""
    return f" and the error {code}" if re.fullmatch("[a-z_]{1,40}", code) else ""
