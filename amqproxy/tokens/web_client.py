"""Requests to services that check logins, have keys, or issue tokens: short, bounded, and never redirected."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import trio

from amqproxy.configuration.config import ConfigError

if TYPE_CHECKING:
    from httpx2 import AsyncClient  # imported when needed: it needs an extra

MAX_ANSWER = 1024 * 1024
"""Longest body of an answer, in bytes; a key set has some KiB."""


class Answer(NamedTuple):
    """The status and the whole body of an answer."""

    status: int
    body: bytes


class WebFailed(Exception):
    """There is no answer, or one that is too long; the text has the host and the reason, and nothing that was sent."""


class WebClient:
    """HTTP/1.1 for one service. `ca` is a file with its authorities, by default those of the system.

    Each request has a connection of its own: a kept one may be closed by the server just as a request is sent, and a
    login would fail. Neither proxies nor credentials are taken from the environment, since passwords are sent.
    """

    def __init__(self, ca: str = "") -> None:
        """Raise `ConfigError` if the file is invalid."""
        try:
            self._context = ssl.create_default_context(cafile=ca or None)
        except (OSError, ValueError) as error:
            raise ConfigError(f"ca: {ca} has no certificates of authorities: {error}") from None

    async def get(self, url: str, timeout: float) -> Answer:
        """Return the answer to a GET within `timeout` seconds; raise `WebFailed`."""
        return await self._ask("GET", url, timeout)

    async def post(
        self, url: str, form: Mapping[str, str], timeout: float, *, auth: tuple[str, str] | None = None
    ) -> Answer:
        """Return the answer to a form, with HTTP's basic authentication by `auth`; raise `WebFailed`."""
        return await self._ask("POST", url, timeout, data=form, auth=auth)

    async def _ask(self, method: str, url: str, timeout: float, **parts: Any) -> Answer:
        import httpx2

        host = urlsplit(url).netloc
        try:
            with trio.fail_after(timeout):
                async with httpx2.AsyncClient(verify=self._context, timeout=None, trust_env=False) as client:
                    return await _answer(client, method, url, parts)
        except trio.TooSlowError:
            raise WebFailed(f"{host} has not answered within {timeout:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            raise WebFailed(f"{host} cannot be asked: {_reason(error)}") from None


async def _answer(client: AsyncClient, method: str, url: str, parts: Mapping[str, Any]) -> Answer:
    headers = {
        "Accept-Encoding": "identity",  # a short body may be a long one compressed
        "Connection": "close",
    }
    async with client.stream(method, url, headers=headers, **parts) as response:
        body = bytearray()
        with (
            trio.CancelScope() as too_long
        ):  # cancelled, httpx closes its inner generators, unlike by an exception here
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MAX_ANSWER:
                    too_long.cancel()
        if len(body) > MAX_ANSWER:
            raise WebFailed(f"{urlsplit(url).netloc} has answered with more than {MAX_ANSWER} bytes")
        return Answer(response.status_code, bytes(body))


def _reason(error: BaseException) -> str:
    """Return the text of an error, or of what caused it, as that of a TLS handshake is hidden."""
    found: BaseException | None = error
    while found is not None:
        if str(found):
            return str(found)
        found = found.__cause__ or found.__context__
    return type(error).__name__
