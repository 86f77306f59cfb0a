"""The configuration's types for pools of upstream connections."""

from __future__ import annotations

from typing import Annotated

import msgspec

from amqproxy.configuration.values import Count, Seconds, Strict


class PoolConfig(Strict, frozen=True):
    """Upstream connections that clients of AMQP 0-9-1 share: see docs/howto/share-upstream-connections.md."""

    clients_per_upstream: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 64
    """Maximum number of clients on one upstream connection, all of which are disconnected if the broker closes it."""
    upstreams: Count = 8
    """Maximum number of upstream connections for one user, virtual host and broker."""
    total: Count = 100
    """Maximum number of upstream connections of all pools of this upstream."""
    channels_per_client: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 16
    """Maximum number of a client's channels on a shared connection; with more, it gets a connection of its own."""
    buffer: Annotated[int, msgspec.Meta(ge=4096, le=16_777_216)] = 131_072
    """Size of the largest message that is shared, in bytes; a client that sends a larger one gets a connection of its
    own.
    """
    share: Annotated[int, msgspec.Meta(ge=65_536, le=268_435_456)] = 1_048_576
    """Number of bytes that may wait for the broker for one client; with more, it is not read."""
    trust: Seconds = 30.0
    """Time for which a login that the broker has accepted is accepted again without asking it."""
    wait: Seconds = 5.0
    """Time for which a client waits for a place; then it is told 530 (not-allowed, "pool exhausted")."""
    barrier_timeout: Seconds = 5.0
    """Time for the broker to process what a client has published, before a method that has to come after it."""
    idle: Seconds = 60.0
    """Time after which an upstream connection that nobody uses is closed."""
    lifetime: Seconds = 3600.0
    """Age at which an upstream connection takes no more clients, a tenth more or less."""
    quarantine: Seconds = 600.0
    """Time for which a client for which the broker has closed a shared connection gets connections of its own."""
