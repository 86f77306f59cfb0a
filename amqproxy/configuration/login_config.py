"""The configuration's types for logins: those of clients that end at the proxy, and its own to brokers."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from amqproxy.configuration.tls_config import CertificateLogin
from amqproxy.configuration.token_config import LoginTokens, check_url
from amqproxy.configuration.values import Count, Seconds, Strict
from amqproxy.rules.matching.match import parse_network

LoginMechanism = Literal["PLAIN", "AMQPLAIN", "EXTERNAL", "ANONYMOUS"]


class LoginCallback(Strict, frozen=True):
    """A service that checks users and passwords, as RabbitMQ's rabbitmq_auth_backend_http asks it."""

    url: str
    """The URL to which `username` and `password` are posted; the answer is `allow`, with tags, or `deny`."""
    vhost_url: str = ""
    """The URL to which `username`, `vhost` and `ip` are posted before a virtual host is opened; by default, none."""
    timeout: Seconds = 5.0
    """Time for an answer, with the wait for a turn; after it, the login is refused."""
    at_once: Count = 16
    """Maximum number of requests at the same time; further logins wait. Clients of one address make half of them at
    most.
    """
    cache: Annotated[float, msgspec.Meta(ge=0, le=60)] = 60.0
    """Time in seconds for which `allow` is remembered; 0 for not at all."""
    ca: str = ""
    """File with the authorities that may have signed its certificate; by default, those of the system."""

    def __post_init__(self) -> None:
        check_url("url", self.url)
        if self.vhost_url:
            check_url("vhost_url", self.vhost_url)


class AnonymousLogin(Strict, frozen=True):
    """Logins by ANONYMOUS, without a password: their user, and where they may come from."""

    user: Annotated[str, msgspec.Meta(min_length=1)]
    """Their user, for rules, routes, logs and metrics."""
    networks: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    """Addresses, and networks such as 10.0.0.0/8, from which they may log in so; others are not offered it."""

    def __post_init__(self) -> None:
        for each in self.networks:
            parse_network(each)


class LoginConfig(Strict, frozen=True):
    """Logins of clients at the proxy, which then logs in to the broker: see docs/howto/log-in-at-the-proxy.md."""

    mechanisms: Annotated[tuple[LoginMechanism, ...], msgspec.Meta(min_length=1)] = ("PLAIN", "AMQPLAIN")
    """Mechanisms that clients may choose; EXTERNAL is offered to clients with a certificate, ANONYMOUS to those of the
    networks in `anonymous`.
    """
    anonymous: AnonymousLogin | None = None
    passwords_need_tls: bool = False
    """Whether clients without TLS are refused PLAIN and AMQPLAIN, which send the password as it is."""
    certificate_login: CertificateLogin = "distinguished_name"
    """The part of a client's certificate that names the user, for EXTERNAL: RabbitMQ's ssl_cert_login_from, or the
    first alternative name of this kind, its ssl_cert_login_san_type.
    """
    users_file: str = ""
    """A file with users, their passwords as argon2id hashes, and their logins to brokers; it is read again when it
    changes.
    """
    callback: LoginCallback | None = None
    """A service that is asked about users that are not in the file."""
    tokens: LoginTokens | None = None
    """The tokens that are accepted in place of passwords."""
    failure_delay: Annotated[float, msgspec.Meta(ge=0, le=60)] = 1.0
    """Time after which a refused login is answered, in seconds; it doubles with each further one of the same address
    and user, up to 30 s. Other logins are not delayed.
    """

    def __post_init__(self) -> None:
        has_source = self.users_file or self.callback is not None or self.tokens is not None
        if ("ANONYMOUS" in self.mechanisms) != (self.anonymous is not None):
            raise ValueError("the mechanism ANONYMOUS needs `anonymous`, with a user and networks, and vice versa")
        if not has_source and not set(self.mechanisms) <= {"EXTERNAL", "ANONYMOUS"}:
            raise ValueError("nothing says who may log in: give it a `users_file`, a `callback` or `tokens`")


class TokenGrant(Strict, frozen=True):
    """Tokens that the proxy requests for itself, by OAuth 2 client credentials (RFC 6749, section 4.4)."""

    url: str
    """The issuer's token endpoint."""
    client_id: str
    """The proxy's name at the issuer."""
    client_secret_file: str = ""
    """A file with the client's secret."""
    client_secret_env: str = ""
    """The environment variable with the client's secret."""
    scope: str = ""
    """The scopes that are requested, separated by spaces."""
    audience: str = ""
    """The `audience` that is requested, which some issuers need."""
    timeout: Seconds = 10.0
    """Time for an answer of the issuer."""
    ca: str = ""
    """File with the authorities that may have signed its certificate; by default, those of the system."""

    def __post_init__(self) -> None:
        check_url("url", self.url)
        if bool(self.client_secret_file) == bool(self.client_secret_env):
            raise ValueError("a client has a secret: name its `client_secret_file` or its `client_secret_env`")


class UpstreamLogin(Strict, frozen=True):
    """The login to brokers for all clients whose own login ends at the proxy, unless the users file has another."""

    user: str = ""
    """The user; with tokens, brokers may ignore it."""
    password_file: str = ""
    """A file with the password; it is read again when it changes."""
    password_env: str = ""
    """The environment variable with the password."""
    token_file: str = ""
    """A file with a token, which another program renews: connections get each new one by connection.update-secret."""
    grant: TokenGrant | None = None
    """The issuer of the tokens, which are renewed at two thirds of their lifetime."""
    addon: str = ""
    """The name of an addon that makes tokens, such as those of a cloud's identity service: see docs/addons.md."""

    def __post_init__(self) -> None:
        given = [
            name for name in ("password_file", "password_env", "token_file", "grant", "addon") if getattr(self, name)
        ]
        if len(given) != 1:
            raise ValueError(
                "the login needs exactly one of `password_file`, `password_env`, `token_file`, `grant` and `addon`"
                + (f": {' and '.join(given)} are given" if given else "")
            )
        if not self.user and given[0].startswith("password"):
            raise ValueError("a password needs its `user`")
