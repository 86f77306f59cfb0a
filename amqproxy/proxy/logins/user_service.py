"""A service that checks users by HTTP, as RabbitMQ's rabbitmq_auth_backend_http asks it."""

from __future__ import annotations

from collections.abc import Mapping

import trio

from amqproxy.configuration.login_config import LoginCallback
from amqproxy.process.log import logger
from amqproxy.proxy.logins.attempt import Identity, LoginAttempt, LoginDenied
from amqproxy.proxy.logins.fair_turns import FairTurns
from amqproxy.tokens.web_client import WebClient, WebFailed

ANSWERED = (200, 201)
"""Statuses that RabbitMQ takes for an answer."""

MAX_WORD = 16 * 1024
"""Longest answer, in bytes: `allow` with all tags."""

SOURCE = "callback"


class UserService:
    """Checks of passwords and virtual hosts by the service of a `[logins.NAME.callback]`."""

    def __init__(self, config: LoginCallback, client: WebClient) -> None:
        self._config = config
        self._client = client
        self._turns = FairTurns(config.at_once)

    async def check(self, attempt: LoginAttempt, network: str) -> tuple[Identity, float]:
        """Return the identity, and how long it may be remembered; raise `LoginDenied`.

        A client with a certificate has no password, which is then not posted, as RabbitMQ does with EXTERNAL.
        """
        form = {"username": attempt.user}
        if attempt.mechanism != "EXTERNAL":
            form["password"] = attempt.password.reveal()
        try:
            tags = await self._allowed(self._config.url, form, network)
        except WebFailed as error:
            raise LoginDenied(str(error), source=SOURCE, is_failure=True) from None
        if tags is None:
            raise LoginDenied("the service denies it", source=SOURCE)
        return Identity(attempt.user, SOURCE, tags), self._config.cache

    async def check_vhost(self, identity: Identity, vhost: str, address: str, network: str) -> bool:
        """Return whether the service allows the virtual host; `False` if it does not answer."""
        if not self._config.vhost_url:
            return True
        form = {"username": identity.user, "vhost": vhost, "ip": address, "tags": " ".join(identity.tags)}
        try:
            return await self._allowed(self._config.vhost_url, form, network) is not None
        except WebFailed as error:
            logger().warning("virtual host not checked", user=identity.user, vhost=vhost, reason=str(error))
            return False

    async def _allowed(self, url: str, form: Mapping[str, str], network: str) -> tuple[str, ...] | None:
        """Return the tags of an answer that allows, and `None` for one that denies; raise `WebFailed`."""
        try:
            encoded = {key: value.encode().decode() for key, value in form.items()}
        except UnicodeEncodeError:
            return None  # a name that is not UTF-8 cannot be posted
        timeout = self._config.timeout
        try:
            with trio.fail_after(timeout):
                async with self._turns.turn(network):
                    answer = await self._client.post(url, encoded, timeout)
        except trio.TooSlowError:
            raise WebFailed(f"no turn at the service, or no answer, within {timeout:g} s") from None
        if answer.status not in ANSWERED:
            raise WebFailed(f"the service has answered with the status {answer.status}")
        if len(answer.body) > MAX_WORD:
            raise WebFailed(f"the service has answered with more than {MAX_WORD} bytes")
        try:
            words = answer.body.decode().split()
        except UnicodeDecodeError:
            words = []
        word = words[0].lower() if words else ""
        if word == "allow":
            return tuple(words[1:])
        if word == "deny":
            return None
        raise WebFailed("the service has answered neither allow nor deny")
