"""Behaviours of RabbitMQ in which versions differ, one `Profile` a version.

Every value was asked of a real broker of that version: 3.10.8, 4.0.5 and 4.3.6, as Debian has them. The suite in
tests/behaviours asks each of them again.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from inspect import getsource
from itertools import pairwise
from typing import Literal

Phase = Literal["permitted_by_default", "denied_by_default", "removed"]
"""RabbitMQ's deprecation phases. Operators can permit or deny what is not removed yet."""

HEADER_0_9_1 = b"AMQP\x00\x00\x09\x01"
HEADER_1_0_SASL = b"AMQP\x03\x01\x00\x00"

CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)
"""Capabilities in the server properties of each of these versions (connection.start)."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The behaviours of one RabbitMQ version."""

    version: str
    """The version in the server properties."""
    mechanisms: tuple[str, ...] = ("PLAIN", "AMQPLAIN")
    """SASL mechanisms that are offered by default."""
    protocols: tuple[str, ...] = ("0-9-1", "0-9", "0-8", "0-9-1 (Qpid)")
    """Protocol headers that begin a 0-9-1 connection."""
    foreign_answer: bytes = HEADER_0_9_1
    """Answer to another protocol's header."""
    start_ok_max: int = 4096
    """Largest frame before connection.tune-ok, in bytes."""
    frame_max_floor: int = 4096
    """Smallest frame_max of connection.tune-ok; with less the client is cut after three seconds."""
    message_size: int = 134_217_728
    """Largest message body in bytes; a larger one is refused with 406."""
    announced_max: int | None = None
    """Largest body size in a content header; a larger one is a FRAME_ERROR (501)."""
    refuses_long_bodies: bool = False
    """Whether a body longer than its header announces is a FRAME_ERROR (501) with a text."""
    checks_delivery_mode: bool = True
    """Whether a delivery_mode other than 1 and 2 is refused with 406."""
    rewrites_expiration: bool = False
    """Whether consumers see the number of an expiration as RabbitMQ prints it: 60000 for 0060000."""
    sorts_headers: bool = False
    """Whether consumers see headers sorted by name, of those with the same name only the first."""
    knows_basic_credit: bool = True
    """Whether basic.credit is a method; if not, it is COMMAND_INVALID (503)."""
    exchange_type_fault: Literal["connection 503", "channel 406"] = "connection 503"
    """Answer to exchange.declare with an unknown type."""
    exchange_types: tuple[str, ...] = ()
    """Exchange types beside AMQP's, without plugins."""
    names_operation: bool = False
    """Whether a 403 names the operation: configure access to queue 'q' …"""
    checks_passive: bool = False
    """Whether a passive declare needs some permission for the name; without any, it is refused with 403."""
    shows_queue_type: bool = False
    """Whether each queue has x-queue-type among its arguments, where exports and refusals show it."""
    ignores_queue_mode: bool = False
    """Whether x-queue-mode may have any value when a queue is first declared."""
    ignores_ha_failover: bool = False
    """Whether a consumer's x-cancel-on-ha-failover is ignored."""
    classic_leader_locator: bool = False
    """Whether classic queues take x-queue-leader-locator."""
    quorum_consumer_timeout: bool = False
    """Whether x-consumer-timeout is an argument of quorum queues, which classic ones refuse."""
    queue_versions: tuple[int, ...] = (1, 2)
    """Values that x-queue-version may have."""
    delivery_limit: int | None = None
    """Delivery limit of a quorum queue without x-delivery-limit."""
    requeues_to_front: bool = False
    """Whether a quorum queue without a delivery limit puts returned messages in front."""
    counts_first_delivery: bool = True
    """Whether the first basic.get from a quorum queue has x-delivery-count 0."""
    counts_acquisitions: bool = False
    """Whether x-acquired-count counts deliveries from a quorum queue, and x-delivery-count rejects and lost channels
    only.
    """
    quorum_priorities: int = 1
    """Priority levels of quorum queues; of two, two high messages come for each normal one."""
    quorum_counts_properties: bool = False
    """Whether properties count in the x-max-length-bytes of a quorum queue."""
    last_death: bool = False
    """Whether dead letters have x-last-death-exchange, x-last-death-queue and x-last-death-reason."""
    reads_deaths: bool = True
    """Whether deaths count on from the x-death of a published message."""
    drops_cc: bool = True
    """Whether x-dead-letter-routing-key takes CC off the dead letter."""
    letters_redelivered: bool = False
    """Whether the dead letter of a rejected message is delivered as redelivered."""
    returns_replies: bool = True
    """Whether a mandatory direct reply is returned as unroutable."""
    stream_takes_rejects: bool = False
    """Whether basic.reject and basic.nack settle a stream's message; if not, they are NOT_IMPLEMENTED (540)."""
    stream_text: str = "stream queues {queue}"
    """A stream in the text about automatic acknowledgement."""
    prefetch_text: str = "'{queue}'"
    """A stream in the text about a missing prefetch."""
    successor_waits: bool = True
    """Whether the next single active consumer waits until all messages of the cancelled one are settled."""
    commits_to_successor: bool = True
    """Whether tx.commit publishes to a queue declared anew since the publish; if not, it is refused with 406."""
    user_limit_text: str = "({limit})"
    """End of the text about a user's channel limit."""
    equates_floats: bool = True
    """Whether headers exchanges treat 1 and 1.0 as equal."""
    phases: Mapping[str, Phase] = field(default_factory=dict)
    """Deprecated features, with their phases."""
    switched: Mapping[str, bool] = field(default_factory=dict)
    """Deprecated features that an operator permits or denies, against the default of their phase."""

    @property
    def name(self) -> str:
        """The minor version, as users choose it: 4.3."""
        return ".".join(self.version.split(".")[:2])

    def permits(self, feature: str) -> bool:
        """Whether a deprecated feature may be used; what a version does not list is not deprecated there."""
        phase = self.phases.get(feature, "permitted_by_default")
        return phase != "removed" and self.switched.get(feature, phase == "permitted_by_default")

    def denied_text(self, feature: str) -> str:
        """RabbitMQ's text about a deprecated feature that may not be used, of which clients get the first 255 bytes."""
        if self.phases[feature] == "permitted_by_default":
            return (
                f"Feature `{feature}` is deprecated.\n"
                "Its use is not permitted per the configuration (overriding the default, which is permitted):\n"
                f'    "deprecated_features.permit.{feature} = false"\n'
                "Its use will not be permitted by default in a future minor RabbitMQ version"
            )
        return (
            f"Feature `{feature}` is deprecated.\n"
            "By default, this feature is not permitted anymore.\n"
            "The feature will be removed from a future major RabbitMQ version, regardless of the configuration; actual "
            "version to be determined.\n"
            "To continue using this feature when it is not permitted by default, set a parameter in your configuration"
        )

    def switching(self, features: Mapping[str, bool]) -> Profile:
        """Return the profile with an operator's `deprecated_features.permit.*`; raise `ValueError` for unknown ones."""
        for feature in features:
            if feature not in self.phases:
                known = ", ".join(sorted(self.phases)) or "none"
                raise ValueError(f"RabbitMQ {self.name} has no deprecated feature {feature!r}; it has: {known}")
        return replace(self, switched={**self.switched, **features})


_V3_10 = Profile(version="3.10.8")

_V4_0 = replace(
    _V3_10,
    version="4.0.5",
    protocols=("0-9-1", "0-9"),
    foreign_answer=HEADER_1_0_SASL,
    message_size=16_777_216,
    checks_delivery_mode=False,
    rewrites_expiration=True,
    sorts_headers=True,
    knows_basic_credit=False,
    exchange_type_fault="channel 406",
    exchange_types=("x-local-random",),
    names_operation=True,
    shows_queue_type=True,
    ignores_ha_failover=True,
    classic_leader_locator=True,
    delivery_limit=20,
    counts_first_delivery=False,
    quorum_priorities=2,
    last_death=True,
    reads_deaths=False,
    drops_cc=False,
    stream_takes_rejects=True,
    stream_text="stream {queue}",
    prefetch_text="stream {queue}",
    successor_waits=False,
    commits_to_successor=False,
    equates_floats=False,
    phases={
        "amqp_address_v1": "permitted_by_default",
        "classic_queue_mirroring": "removed",
        "global_qos": "permitted_by_default",
        "queue_master_locator": "permitted_by_default",
        "ram_node_type": "permitted_by_default",
        "transient_nonexcl_queues": "permitted_by_default",
    },
)

_V4_3 = replace(
    _V4_0,
    version="4.3.6",
    mechanisms=("AMQPLAIN", "ANONYMOUS", "PLAIN"),
    start_ok_max=8192,
    frame_max_floor=8192,
    announced_max=536_870_912,
    refuses_long_bodies=True,
    exchange_types=("x-local-random", "x-modulus-hash"),
    checks_passive=True,
    ignores_queue_mode=True,
    quorum_consumer_timeout=True,
    queue_versions=(2,),
    requeues_to_front=True,
    counts_acquisitions=True,
    quorum_priorities=32,
    quorum_counts_properties=True,
    letters_redelivered=True,
    returns_replies=False,
    user_limit_text="{limit}",
    phases={
        "amqp_address_v1": "denied_by_default",
        "amqp_filter_set_bug": "denied_by_default",
        "classic_queue_mirroring": "removed",
        "global_qos": "denied_by_default",
        "queue_master_locator": "denied_by_default",
        "ram_node_type": "removed",
        "transient_nonexcl_queues": "permitted_by_default",
    },
)

PROFILES: Mapping[str, Profile] = {each.name: each for each in (_V3_10, _V4_0, _V4_3)}
"""The known versions, oldest first, by the names that users choose."""

NEWEST = "4.3"

OLDEST = _V3_10
"""The profile of a broker that is given none."""


def behaviours() -> Iterator[tuple[str, str]]:
    """Yield the name of each behaviour in the table, and its description."""
    (body,) = (each.body for each in ast.parse(getsource(sys.modules[__name__])).body if isinstance(each, ast.ClassDef))
    for named, described in pairwise(body):
        if isinstance(named, ast.AnnAssign) and isinstance(described, ast.Expr) and isinstance(named.target, ast.Name):
            text = ast.literal_eval(described.value)
            if named.target.id != "switched":
                yield named.target.id, " ".join(text.split())
