"""The order in which the members of a group are tried for a client. Pure: no clock, no random numbers.

Each selection orders members of equal rank; the first takes the client, the others follow if it fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType

from amqproxy.proxy.upstreams.member import Member

Selection = Callable[[Sequence[Member], float, str], list[Member]]
"""Orders members, given the time and the client's key."""

_HASHES = 2.0**64


def round_robin(members: Sequence[Member], now: float, key: str) -> list[Member]:
    """Order by smooth weighted round robin: each takes clients in proportion to its share, evenly interleaved.

    Each call counts as one client, which the first member takes.
    """
    shares = [member.share(now) for member in members]
    for member, share in zip(members, shares, strict=True):
        member.credit += share
    ordered = sorted(members, key=lambda member: -member.credit)
    if ordered:
        ordered[0].credit -= sum(shares)
    return ordered


def least_connections(members: Sequence[Member], now: float, key: str) -> list[Member]:
    """Order by the number of connections in proportion to the share; equal members take turns."""
    return sorted(
        round_robin(members, now, key), key=lambda member: (member.connections + 1) / (member.share(now) or math.inf)
    )


def consistent_hash(members: Sequence[Member], now: float, key: str) -> list[Member]:
    """Order by a hash of the client's key and the member's address, so that equal keys go to the same member.

    When a member comes or goes, only the keys move that it takes or had (weighted rendezvous hashing). A slow start
    changes nothing: it would move keys twice.
    """
    return sorted(members, key=lambda member: -_score(member, key))


def _score(member: Member, key: str) -> float:
    data = f"{key}\0{member.address}".encode("utf-8", "surrogateescape")
    drawn = (int.from_bytes(blake2b(data, digest_size=8).digest()) + 0.5) / _HASHES
    # 1.0 is reached by rounding: its logarithm would be 0
    return member.weight / -math.log(min(drawn, 1 - 2**-53))


SELECTIONS: Mapping[str, Selection] = MappingProxyType(
    {"round_robin": round_robin, "least_connections": least_connections, "hash": consistent_hash}
)
"""All selections, by their names in the configuration."""
