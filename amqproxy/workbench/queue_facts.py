"""Facts about a queue that a run needs before it touches a message."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from amqproxy.moving.broker_link import BrokerLink, ChannelRefused
from amqproxy.moving.message_forwarder import MoveFailed
from amqproxy.moving.queue_move import is_stream
from amqproxy.rabbitmq.profile import PROFILES, Profile
from amqproxy.workbench.broker_api import BrokerAPI
from amqproxy.workbench.queue_reader import QueueReader

QueueType = Literal["classic", "quorum", "stream", ""]


class QueueFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A queue: its `type` is "" if it is classic or quorum, and nobody has said which.

    `delivery_limit` is the number of returns that a message of a quorum queue survives, `None` for any number;
    `is_limit_known` is whether that is certain. `profile` has the behaviours of the broker's version.
    """

    name: str
    vhost: str
    type: QueueType
    messages: int
    consumers: int
    delivery_limit: int | None
    is_limit_known: bool
    profile: Profile


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the queue that the user gives; a `delivery_limit` below 0 is none."""

    type: QueueType = ""
    delivery_limit: int | None = None
    api: BrokerAPI | None = None


async def queue_facts(link: BrokerLink, vhost: str, name: str, given: Given) -> QueueFacts:
    """Return the facts about a queue, from the user, the management API and AMQP; raise `MoveFailed`, `APIFailed`.

    The link of a stream cannot be used afterwards.
    """
    try:
        found = await QueueReader(link, name).depth()
    except ChannelRefused as error:
        raise MoveFailed(f"the queue cannot be used: {error}") from None
    profile = profile_of(link.server_properties)
    kind, limit, is_known = given.type, given.delivery_limit, given.delivery_limit is not None
    if given.api is not None:
        described = await given.api.queue(vhost, name)
        kind = _type_of(described)
        if not is_known:
            limit, is_known = _limit_of(described, profile), True
    elif not kind and await is_stream(link, name):
        kind = "stream"
    if limit is not None and limit < 0:
        limit = None
    return QueueFacts(
        name=name,
        vhost=vhost,
        type=kind,
        messages=found.message_count,
        consumers=found.consumer_count,
        delivery_limit=limit if is_known else profile.delivery_limit,
        is_limit_known=is_known,
        profile=profile,
    )


def profile_of(server_properties: Mapping[str, Any]) -> Profile:
    """Return the behaviours of the broker's version: of the last known one before it, or of the oldest."""
    text = server_properties.get("version")
    digits = re.match(r"(\d+)\.(\d+)", text) if isinstance(text, str) else None
    version = (int(digits[1]), int(digits[2])) if digits else (0, 0)
    known = sorted(PROFILES.values(), key=_number)
    return next((each for each in reversed(known) if _number(each) <= version), known[0])


def _number(profile: Profile) -> tuple[int, int]:
    major, minor = profile.name.split(".")
    return int(major), int(minor)


def _type_of(described: Mapping[str, Any]) -> QueueType:
    found = described.get("type") or described.get("arguments", {}).get("x-queue-type")
    return found if found in ("classic", "quorum", "stream") else "classic"


def _limit_of(described: Mapping[str, Any], profile: Profile) -> int | None:
    """Return the delivery limit: the lower of argument and policies, or the version's default."""
    sources = (
        (described.get("arguments"), "x-delivery-limit"),
        (described.get("effective_policy_definition"), "delivery-limit"),
    )
    found = [table[key] for table, key in sources if isinstance(table, dict) and isinstance(table.get(key), int)]
    limits = [each for each in found if each >= 0]
    if limits:
        return int(min(limits))
    return -1 if found else profile.delivery_limit
