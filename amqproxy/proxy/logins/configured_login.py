"""The check of logins as a `[logins.NAME]` configures it."""

from __future__ import annotations

import time
from collections.abc import Callable

import trio

from amqproxy.configuration.login_config import LoginConfig
from amqproxy.configuration.values import join_address
from amqproxy.process.log import logger
from amqproxy.process.supervision import kept_up
from amqproxy.proxy.logins.attempt import Identity, LoginAttempt, LoginDenied
from amqproxy.proxy.logins.client_network import client_network
from amqproxy.proxy.logins.failure_delays import FailureDelays
from amqproxy.proxy.logins.login_memory import LoginMemory
from amqproxy.proxy.logins.token_check import TokenCheck
from amqproxy.proxy.logins.user_directory import UserDirectory
from amqproxy.proxy.logins.user_service import UserService
from amqproxy.rules.matching.match import parse_network
from amqproxy.sockets.proxy_protocol import plain_address
from amqproxy.tokens.token_claims import is_token

ANSWER_TIME = 0.5
"""Seconds that are left of a client's handshake to send it the refusal."""

Count = Callable[[str, str], None]
"""Counts a login by its source and its outcome, which are those of `amqproxy_logins_total`."""


class ConfiguredLogin:
    """`LoginCheck` by tokens, a file of users, and a service.

    A password that is a token is checked as one; a user that the file has, by the file; all others, by the service.
    Failures are answered after a delay from the beginning of the attempt, so that the time tells nothing.
    """

    def __init__(
        self,
        config: LoginConfig,
        count: Count,
        *,
        users: UserDirectory | None = None,
        service: UserService | None = None,
        tokens: TokenCheck | None = None,
        clock: Callable[[], float] = trio.current_time,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.config = config
        self._count = count
        self._users = users
        self._service = service
        self._tokens = tokens
        self._networks = [parse_network(each) for each in config.anonymous.networks] if config.anonymous else []
        self._delays = FailureDelays(config.failure_delay, clock)
        self._memory = LoginMemory(clock, now)
        if users is not None:
            users.on_change = self.forget
        if tokens is not None:
            tokens.keys.on_change = self.forget

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return self.config.mechanisms

    def admits_anonymous(self, address: str) -> bool:
        try:
            found = plain_address(address)
        except ValueError:  # of another kind, such as that of a Unix socket
            return False
        return any(found in network for network in self._networks)

    @property
    def passwords_need_tls(self) -> bool:
        return self.config.passwords_need_tls

    @property
    def certificate_login(self) -> str:
        return self.config.certificate_login

    async def check(self, attempt: LoginAttempt) -> Identity:
        began = trio.current_time()
        network = client_network(attempt.client.address)
        try:
            if attempt.mechanism == "ANONYMOUS":  # equal attempts of several networks are not joined
                identity = self._by_network(attempt)
            else:
                identity = await self._memory.recall(attempt, lambda: self._checked(attempt, network))
        except LoginDenied as denied:
            self._count(denied.source, "failed" if denied.is_failure else "refused")
            # A login that could not be checked is no guess, but the client should not try again at once.
            delay = self._delays.first if denied.is_failure else self._delays.fail(network, attempt.user)
            client = attempt.client
            logger().warning(
                "login refused",
                session=client.session,
                client=join_address(client.address, client.port),
                user=attempt.user,
                source=denied.source,
                reason=str(denied),
            )
            # the answer must still come within the client's handshake
            await trio.sleep_until(min(began + delay, trio.current_effective_deadline() - ANSWER_TIME))
            raise
        self._delays.forget(network, attempt.user)
        self._count(identity.source, "accepted")
        return identity

    async def check_vhost(self, identity: Identity, vhost: str, address: str) -> bool:
        if identity.source in ("file", "certificate") and self._users is not None:
            user = self._users.users.by_name.get(identity.user)
            return user is not None and (user.vhosts is None or vhost in user.vhosts)
        if identity.source == "callback" and self._service is not None:
            return await self._service.check_vhost(identity, vhost, address, client_network(address))
        return True

    def forget(self) -> None:
        """Forget the logins that were accepted, so that each is checked again."""
        self._memory.forget()

    async def run(self) -> None:
        """Read the file and fetch the keys again when needed, until cancelled."""
        async with trio.open_nursery() as nursery:
            for each in (self._users, self._tokens):
                if each is not None:
                    nursery.start_soon(kept_up, "login source failed", each.run)

    async def _checked(self, attempt: LoginAttempt, network: str) -> tuple[Identity, float]:
        """Check an attempt by the source that decides about it; return how long that may be remembered, too."""
        if attempt.mechanism == "EXTERNAL":
            return await self._by_certificate(attempt, network)
        if self._tokens is not None and is_token(attempt.password.reveal()):
            return await self._tokens.check(attempt.password.reveal())
        is_known = self._users is not None and attempt.user in self._users.users.by_name
        if self._users is not None and (is_known or self._service is None):
            return await self._users.check_password(attempt, network)
        if self._service is not None:
            return await self._service.check(attempt, network)
        raise LoginDenied("the password is not a token" if self._tokens is not None else "nothing checks passwords")

    def _by_network(self, attempt: LoginAttempt) -> Identity:
        """Accept a client without a password if it is in one of the networks."""
        anonymous = self.config.anonymous
        if anonymous is None or not self.admits_anonymous(attempt.client.address):
            raise LoginDenied("the client is not in the networks of anonymous clients", source="network")
        return Identity(anonymous.user, "network")

    async def _by_certificate(self, attempt: LoginAttempt, network: str) -> tuple[Identity, float]:
        """Accept a certificate that the file or the service knows; without both, all that TLS has verified."""
        user = self._users.users.by_certificate.get(attempt.user) if self._users is not None else None
        if user is not None:
            return user.identity("certificate"), 0
        if self._service is not None:
            return await self._service.check(attempt, network)
        if self._users is not None:
            raise LoginDenied("no user has this certificate", source="certificate")
        return Identity(attempt.user, "certificate"), 0
