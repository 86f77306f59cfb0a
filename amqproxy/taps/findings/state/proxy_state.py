"""State of a proxy at one time, as far as findings are about it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class MemberState(NamedTuple):
    """A member of an upstream: how often it was left out so far, and the reason of its last failure."""

    address: str
    outages: int
    last_failure: str = ""


class UpstreamState(NamedTuple):
    """An upstream group: its members, and the counts of its logins so far.

    `refused_logins` is the number of clients that were refused, since `login_queue` clients waited to log in;
    `failed_renewals` the number of requests for a token that failed, the last one for the reason `renewal_fault`.
    """

    name: str
    members: tuple[MemberState, ...] = ()
    login_queue: int = 0
    refused_logins: int = 0
    failed_renewals: int = 0
    renewal_fault: str = ""


class ProxyState(NamedTuple):
    """All upstream groups, and when the certificates in files expire, in seconds since 1970."""

    upstreams: tuple[UpstreamState, ...] = ()
    certificates: Mapping[str, float] = MappingProxyType({})
