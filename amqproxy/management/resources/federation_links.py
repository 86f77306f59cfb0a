"""Federation links: what policies would federate if this broker did; each link is shown with an error that says so."""

from __future__ import annotations

import time
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

from amqproxy.management.call import Call, Done, Entry
from amqproxy.management.failure import not_found
from amqproxy.management.listing import Rows
from amqproxy.rules.matching.name_pattern import bounded_name_pattern
from amqproxy.shovels.broker_uri import without_credentials

ERROR = "amqproxy keeps federation parameters and does not federate"

UPSTREAM, PATTERN, SET = "federation-upstream", "federation-upstream-pattern", "federation-upstream-set"
"""Keys of a policy that federate what it applies to."""

ALL = "all"
"""The set of all upstreams of a virtual host."""


async def links(call: Call) -> Rows:
    """Return the links of a virtual host, or of all that the user may use: monitoring users see no others, either."""
    return Rows(_links(call), ("vhost", "id"))


async def restart_link(call: Call) -> Done:
    """Refuse the restart of a link: none runs."""
    raise not_found()


async def _links(call: Call) -> AsyncIterator[Entry]:
    vhost = call.values.get("vhost")
    upstreams: dict[str, dict[str, Any]] = {}
    sets: dict[tuple[str, str], Any] = {}
    async for each in call.broker.objects("parameters", vhost):
        if each["component"] == "federation-upstream":
            upstreams.setdefault(each["vhost"], {})[each["name"]] = each["value"]
        elif each["component"] == "federation-upstream-set":
            sets[each["vhost"], each["name"]] = each["value"]
    chosen: dict[tuple[str, str], list[str]] = {}
    async for each in call.broker.objects("policies", vhost):
        if not call.sees(each["vhost"]):
            continue
        known = upstreams.get(each["vhost"], {})
        members = _members(each["definition"], known, sets.get((each["vhost"], str(each["definition"].get(SET))), ()))
        if members:
            chosen[each["vhost"], each["name"]] = members
    for kind in ("exchange", "queue") if chosen else ():
        async with aclosing(call.broker.objects(f"{kind}s", vhost)) as found:
            async for each in found:
                if each["name"] and not each.get("internal") and each.get("type") != "stream":
                    for name in chosen.get((each["vhost"], each["policy"]), ()):
                        yield _row(call, kind, each, name, upstreams[each["vhost"]][name])


def _members(definition: Mapping[str, Any], known: Mapping[str, Any], members: Any) -> list[str]:
    """Return the names of the known upstreams that a policy chooses; `members` are those of its set."""
    if UPSTREAM in definition:
        names = [definition[UPSTREAM]]
    elif PATTERN in definition:
        try:
            pattern = bounded_name_pattern(str(definition[PATTERN]))
        except ValueError:
            return []
        names = [each for each in known if pattern.fits(each)]
    elif definition.get(SET) == ALL:
        names = list(known)
    elif SET in definition:
        listed = members if isinstance(members, list) else []
        names = [each.get("upstream") for each in listed if isinstance(each, dict)]
    else:
        return []
    return [each for each in names if isinstance(each, str) and each in known]


def _row(call: Call, kind: str, entry: Entry, upstream: str, parameter: Any) -> Entry:
    value = parameter if isinstance(parameter, dict) else {}
    name = value.get(kind) or entry["name"]
    row: Entry = {"node": call.facts.node, kind: entry["name"], f"upstream_{kind}": name, "type": kind}
    if kind == "queue":
        row["consumer_tag"] = value.get("consumer-tag") or f"federation-link-{upstream}"
    place = "\0".join((entry["vhost"], kind, entry["name"], upstream))
    return row | {
        "vhost": entry["vhost"],
        "upstream": upstream,
        "id": f"{zlib.crc32(place.encode()):08x}",
        "status": "error",
        "error": ERROR,
        "uri": shown_uri(value.get("uri")),
        "timestamp": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime()),
    }


def shown_uri(value: Any) -> str:
    """Return the only or first of the URIs of a parameter, without its user and password."""
    first = value[0] if isinstance(value, list) and value else value
    return without_credentials(first) if isinstance(first, str) else ""  # imported values may be anything
