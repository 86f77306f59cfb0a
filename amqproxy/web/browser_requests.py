"""Requests that browsers send on behalf of pages of other sites, judged by their headers."""

from __future__ import annotations

import re
import socket
from collections.abc import Collection, Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

_PORT = re.compile(r":\d{1,5}$")


def own_names(*configured: str) -> frozenset[str]:
    """Return the names of this machine, with those that are configured, in small letters."""
    return frozenset({"localhost", socket.gethostname().lower(), *map(str.lower, configured)})


def is_own(host: str, names: Collection[str]) -> bool:
    """Whether a header `Host` is an address or one of the names: another name may point here by DNS rebinding."""
    name = _PORT.sub("", host).lower()
    if name in names:
        return True
    try:
        ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def has_other_origin(headers: Mapping[str, str]) -> bool:
    """Whether the `Origin`, if there is one, differs from the `Host`."""
    origin = headers.get("origin")
    return origin is not None and _host_of(origin) != headers.get("host", "").lower()


def is_of_other_site(headers: Mapping[str, str]) -> bool:
    """Whether the browser says so; requests without an `Origin`, such as those for images, are judged by this."""
    return headers.get("sec-fetch-site", "none") in ("cross-site", "same-site")


def _host_of(origin: str) -> str:
    """Return the host and port of an `Origin`; "" if it is invalid."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
