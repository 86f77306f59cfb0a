"""The configuration's types for upstreams: brokers, groups of brokers, and the routes to them."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from amqproxy.configuration.login_config import UpstreamLogin
from amqproxy.configuration.pool_config import PoolConfig
from amqproxy.configuration.tls_config import ClientTLS
from amqproxy.configuration.values import Count, ListenAddress, RemoteAddress, Seconds, Strict, check_broker_address
from amqproxy.rules.bridge import Bridge
from amqproxy.rules.matching.attributes import SENT_LATER
from amqproxy.rules.matching.filters import compiled


class UpstreamConfig(Strict, frozen=True):
    """The broker to which connections are forwarded."""

    address: RemoteAddress = "127.0.0.1:5672"
    """HOST:PORT or [IPV6]:PORT."""
    tls: ClientTLS | None = None
    proxy_protocol: bool = False
    """Send the broker the client's address first; the broker must expect PROXY protocol, version 2."""
    bridge: Bridge | None = None
    """Rules for clients of earlier RabbitMQ versions: see docs/howto/bridge-to-rabbitmq-4.md."""
    login: UpstreamLogin | None = None
    """The proxy's login for clients that have logged in at the proxy; by default, the broker gets their own."""
    logins_per_second: Annotated[float, msgspec.Meta(ge=0, le=100_000)] = 0.0
    """Number of clients a second that each broker is given to log in, so that a storm of them harms nobody; others
    wait, in a queue that is fair to their addresses. 0 for no limit.
    """
    login_queue: Count = 10_000
    """Maximum number of clients that wait for that; a further one is refused."""
    pool: PoolConfig | None = None
    """Connections that clients of AMQP 0-9-1 share; by default, each has its own."""

    def __post_init__(self) -> None:
        check_broker_address(self.address)
        if self.pool is not None and self.proxy_protocol:
            raise ValueError(
                ".pool: clients share connections, so that the broker cannot be sent their addresses: "
                "leave out `proxy_protocol` or `pool`"
            )


class MemberConfig(Strict, frozen=True):
    """One broker of a group: its address, and its share of the clients."""

    address: RemoteAddress
    """HOST:PORT or [IPV6]:PORT."""
    weight: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 1
    """Its share of new clients, in proportion to the others' weights; 0 for none."""
    priority: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    """Members with a higher number take clients only if none with a lower one can."""
    zone: str = ""
    """Its zone, such as a data centre: see the group's `zone`."""
    tls: ClientTLS | None = None
    """TLS towards this member; by default, the group's `tls`."""
    proxy_protocol: bool | None = None
    """Whether this member is sent the client's address; by default, the group's `proxy_protocol`."""
    resolve: Literal["one", "all"] = "one"
    """Whether the host's addresses count as one member, of which any that answers is used, or as one member each."""

    def __post_init__(self) -> None:
        check_broker_address(self.address)


class HealthCheck(Strict, frozen=True):
    """Active checks of a group's members: see docs/howto/run-several-brokers.md."""

    kind: Literal["tcp", "tls", "amqp", "http"] = "tcp"
    """A TCP connection; with the TLS handshake; a login by AMQP 0-9-1 with a proper close; or an answer of 200 to a GET
    of `url`.
    """
    interval: Seconds = 5.0
    """Time between two checks of a member."""
    timeout: Seconds = 2.0
    """Time for a check."""
    fall: Count = 3
    """Number of failures in a row after which a member is down."""
    rise: Count = 2
    """Number of successes in a row after which it is up again."""
    closes: bool = True
    """Whether the clients of a member that goes down are told 320 (connection-forced), if another member is up."""
    url: str = "http://{host}:15672/api/health/checks/ready-to-serve-clients"
    """The URL for `http`; {host} is the member's host."""
    user: str = ""
    """User of the login for `amqp` and `http`."""
    password_file: str = ""
    """A file with its password."""
    password_env: str = ""
    """The environment variable with its password."""
    vhost: str = "/"
    """The virtual host that `amqp` opens."""

    def __post_init__(self) -> None:
        if self.kind == "amqp" and not self.user:
            raise ValueError(
                ".user: an amqp check logs in, since RabbitMQ would log a warning for each check otherwise"
            )
        if bool(self.user) != bool(self.password_file or self.password_env) or (
            self.password_file and self.password_env
        ):
            raise ValueError("a `user` needs a `password_file` or a `password_env`")
        if self.kind == "http" and urlsplit(self.url).scheme != "http":
            raise ValueError(f".url: {self.url} does not begin with http://")


class Ejection(Strict, frozen=True):
    """Ejection of members to which connections fail: they take no new clients for a while."""

    failures: Count = 3
    """Number of failures in a row after which a member is ejected. Never is more than half of a group ejected."""
    time: Seconds = 10.0
    """Duration of the first ejection; each that follows soon lasts twice as long."""
    most: Seconds = 300.0
    """Longest duration of an ejection."""


class NamedUpstream(UpstreamConfig, frozen=True):
    """A broker, or a group of brokers, for clients or for copies that rules send."""

    members: tuple[MemberConfig, ...] = ()
    """The brokers of the group; without them, `address` is the only one."""
    selection: Literal["round_robin", "least_connections", "hash"] = "round_robin"
    """The member for a new client: each in turn, the one with the fewest connections, or by a hash, which is the same
    for equal clients.
    """
    hash_by: Literal["address", "user", "vhost"] = "address"
    """The fact about clients that is hashed; `user` and `vhost` are known of clients that log in at the proxy."""
    zone: str = ""
    """The proxy's own zone: members of the same zone take its clients if they can."""
    connect_timeout: Seconds | None = None
    """Time for a member to accept and to answer, if another one is left; by default, `limits.connect_timeout`."""
    slow_start: Seconds = 30.0
    """Time in which a member that returns takes clients again in growing numbers."""
    check: HealthCheck | None = None
    """Active checks of the members; by default, members are judged by the connections of clients alone."""
    ejection: Ejection = Ejection()
    """Ejection of members to which connections fail."""
    rebalance_rate: Annotated[float, msgspec.Meta(ge=0, le=10_000)] = 0.0
    """Number of clients a second that are told 320 (connection-forced), to reconnect, while a member has a tenth more
    than its share, for instance after another one has returned; 0 for none.
    """
    resolve_interval: Seconds = 10.0
    """Time between two look-ups of the members with `resolve = "all"`."""
    user: str = "guest"
    """The user of the login with which rules send copies, and switches move messages."""
    password_file: str = ""
    """A file with the password for this login."""
    password_env: str = ""
    """The environment variable with the password for this login."""
    vhost: str = ""
    """The virtual host for copies; by default, the client's own."""

    @property
    def has_login(self) -> bool:
        """Whether there is a login of the proxy itself."""
        return bool(self.password_file or self.password_env)

    @property
    def takes_copies(self) -> bool:
        """Whether there is a login with which rules may send copies, and one broker that takes them."""
        return self.has_login and not self.members

    @property
    def all_members(self) -> tuple[MemberConfig, ...]:
        """The members, with the group's TLS and PROXY protocol where they have none of their own."""
        found = self.members or (MemberConfig(address=self.address),)
        return tuple(
            msgspec.structs.replace(
                each,
                tls=each.tls or self.tls,
                proxy_protocol=self.proxy_protocol if each.proxy_protocol is None else each.proxy_protocol,
            )
            for each in found
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bridge is not None:
            raise ValueError(".bridge: a bridge is for the clients of [upstream]")
        if self.password_file and self.password_env:
            raise ValueError("the password is in a file or in a variable: name `password_file` or `password_env`")
        addresses = [each.address for each in self.members]
        for place, address in enumerate(addresses):
            if address in addresses[:place]:
                raise ValueError(f".members[{place}].address: {address} is a member already")


class RouteConfig(Strict, frozen=True):
    """A choice of the upstream for some clients, by what is known when they connect. All given keys must hold."""

    upstream: str
    """The name of the `[upstreams.NAME]` that takes these clients."""
    listener: ListenAddress | None = None
    """The `address` of the listener to which they connect, as `[[listen]]` has it."""
    sni: str | None = None
    """The server name that they request in TLS; *.example.com stands for all names below example.com."""
    when: str | None = None
    """A CEL expression over `client.address`, `client.port`, `listener`, `tls.subject` and `tls.sni`. Of clients that
    log in at the proxy, `user`, `vhost`, `client.name` and `client.properties` are known, too.
    """
    user: str | None = None
    """The user that logs in, if that is at the proxy."""
    vhost: str | None = None
    """The virtual host that the client opens, if it logs in at the proxy."""

    @property
    def needs_login(self) -> str:
        """The key that needs clients to log in at the proxy, or what it reads; "" if it needs none."""
        if self.user is not None or self.vhost is not None:
            return ".user" if self.user is not None else ".vhost"
        names = compiled(self.when).names if self.when is not None else frozenset()
        return ".when" if names & SENT_LATER else ""

    def __post_init__(self) -> None:
        if self.when is None:
            return
        try:
            names = compiled(self.when).names
        except ValueError as error:
            raise ValueError(f".when: {error}") from None
        unknown = sorted(names - ROUTABLE)
        if unknown:
            raise ValueError(
                f".when: `{unknown[0]}` is not known when a client is routed; known are {', '.join(sorted(ROUTABLE))}"
            )


ROUTABLE = frozenset({"client.address", "client.port", "listener", "tls.subject", "tls.sni"}) | SENT_LATER
"""Attributes of clients that routes may read."""
