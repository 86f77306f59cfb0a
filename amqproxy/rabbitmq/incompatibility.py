"""Uses of RabbitMQ that a later version refuses, takes differently, or has deprecated.

Each is derived from the table of behaviours: findings recognise the uses in traffic, `readiness` in definitions, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from amqproxy.rabbitmq.profile import OLDEST, PROFILES, Profile

_MINOR = re.compile(r"(\d+)\.(\d+)")


class Level(StrEnum):
    """Consequence of a use, the worst first."""

    BREAKS = "breaks"
    """It is refused, or messages are lost."""
    CHANGES = "changes"
    """It is taken, and means something else."""
    DEPRECATED = "deprecated"
    """It works, and a later version or another configuration refuses it."""

    @property
    def rank(self) -> int:
        return list(Level).index(self)


class Effect(NamedTuple):
    """Effect of a use on one version of RabbitMQ; `text` continues a sentence that begins with the version."""

    level: Level
    text: str


@dataclass(frozen=True, kw_only=True)
class Incompatibility:
    """A use in which a later RabbitMQ differs from 3.10; `kind` names its finding."""

    kind: str
    effect: Callable[[Profile], Effect | None]
    """Returns what a version does, if that differs from 3.10."""
    why: str
    remedy: str
    rule: str = ""
    """Rules of the proxy, as TOML, that bridge the difference."""


def profile_of(version: str) -> Profile:
    """Return the profile of the newest known version that is not later than this one; else the oldest profile."""
    found = _MINOR.match(version)
    asked = (int(found[1]), int(found[2])) if found else (0, 0)
    known = [each for name, each in PROFILES.items() if tuple(map(int, name.split("."))) <= asked]
    return known[-1] if known else OLDEST


def _where(is_so: Callable[[Profile], bool], level: Level, text: str) -> Callable[[Profile], Effect | None]:
    """Return a function from a version's profile to this effect, or `None` if `is_so` is false of the profile."""
    return lambda profile: Effect(level, text) if is_so(profile) else None


def _feature(feature: str, denied: Effect, taken: str = "takes it as deprecated") -> Callable[[Profile], Effect | None]:
    """Return a function from a profile to `denied` if the feature is not permitted, or to its deprecation, if any."""

    def effect(profile: Profile) -> Effect | None:
        if not profile.permits(feature):
            return denied
        if feature not in profile.phases:
            return None
        return Effect(
            Level.DEPRECATED, f"{taken}: refused with deprecated_features.permit.{feature} = false, and by later ones"
        )

    return effect


def _frame_max(profile: Profile) -> Effect | None:
    floor = profile.frame_max_floor
    return Effect(Level.BREAKS, f"cuts the connection below {floor}") if floor > OLDEST.frame_max_floor else None


def _message_size(profile: Profile) -> Effect | None:
    size = profile.message_size
    text = f"refuses more than {size} bytes with 406, and closes the channel"
    return Effect(Level.BREAKS, text) if size < OLDEST.message_size else None


def _delivery_limit(profile: Profile) -> Effect | None:
    if profile.delivery_limit is None:
        return None
    counted = "rejected" if profile.counts_acquisitions else "returned"
    text = f"drops or dead-letters a message once it is {counted} more than {profile.delivery_limit} times"
    return Effect(Level.BREAKS, text)


def _priorities(profile: Profile) -> Effect | None:
    levels = profile.quorum_priorities
    return Effect(Level.CHANGES, f"delivers by {levels} levels of priority") if levels > 1 else None


FRAME_MAX = Incompatibility(
    kind="rabbitmq4-frame-max",
    effect=_frame_max,
    why="RabbitMQ 4.1 and later take no frame_max below 8192: the client cannot connect at all, and retries for ever.",
    remedy=(
        "Have the client answer with the broker's frame_max, or with 8192 at least: its default is too low in amqplib "
        "before 0.10.7, amqp-client.js, rabbitmq-client and amqprs of before 2025."
    ),
    rule="""\
[[rules]]
name = "rabbitmq4-frame-max"
action = "rewrite"
match.method = "connection.tune-ok"
tune.least_frame_max = 8192
""",
)

TRANSIENT_QUEUE = Incompatibility(
    kind="rabbitmq4-transient-queue",
    effect=_feature("transient_nonexcl_queues", Effect(Level.BREAKS, "refuses it with 541, and closes the connection")),
    why="RabbitMQ 4 has deprecated queues that are neither durable nor exclusive: each is gone when its node restarts.",
    remedy=(
        "Declare the queue exclusive if only this connection uses it, else durable, with x-expires if it should go "
        "when nobody uses it."
    ),
    rule="""\
[[rules]]
name = "rabbitmq4-transient-queue-of-one"
action = "rewrite"
match.method = "queue.declare"
when = '!fields.passive && !fields.durable && !fields.exclusive && fields.auto_delete && queue == ""'
fields.set = {exclusive = true}

[[rules]]
name = "rabbitmq4-transient-queue"
action = "rewrite"
match.method = "queue.declare"
when = "!fields.passive && !fields.durable && !fields.exclusive"
fields.set = {durable = true}
arguments.default = {x-queue-type = "classic", x-expires = 86_400_000}
""",
)

QUEUE_VERSION = Incompatibility(
    kind="rabbitmq4-queue-version",
    effect=_where(lambda profile: 1 not in profile.queue_versions, Level.BREAKS, "refuses it with 406"),
    why="RabbitMQ 4.3 has no version 1 of classic queues: the declare fails, and its channel is closed.",
    remedy="Leave out x-queue-version, or set it to 2; a queue that exists keeps its messages.",
    rule="""\
[[rules]]
name = "rabbitmq4-queue-version"
action = "rewrite"
match.method = "queue.declare"
when = '"x-queue-version" in arguments && arguments["x-queue-version"] == 1'
arguments.remove = ["x-queue-version"]
""",
)

QUEUE_MASTER_LOCATOR = Incompatibility(
    kind="rabbitmq4-queue-master-locator",
    effect=_feature("queue_master_locator", Effect(Level.BREAKS, "refuses it with 541, and closes the connection")),
    why="RabbitMQ 4.3 refuses x-queue-master-locator: with the connection, all of its channels end.",
    remedy="Use x-queue-leader-locator, or the setting queue_leader_locator of the broker.",
    rule="""\
[[rules]]
name = "rabbitmq4-queue-master-locator"
action = "rewrite"
match.method = "queue.declare"
arguments.remove = ["x-queue-master-locator"]
""",
)

QUEUE_MODE = Incompatibility(
    kind="rabbitmq4-queue-mode",
    effect=_where(lambda profile: profile.ignores_queue_mode, Level.CHANGES, "ignores it"),
    why="Classic queues write their messages to disk by themselves: x-queue-mode only makes declares inequivalent.",
    remedy="Leave out x-queue-mode where a queue is declared anew; keep it the same in all programs until then.",
)

CONSUMER_TIMEOUT = Incompatibility(
    kind="rabbitmq4-consumer-timeout",
    effect=_where(lambda profile: profile.quorum_consumer_timeout, Level.BREAKS, "refuses it with 406"),
    why="RabbitMQ 4.3 has acknowledgement timeouts for quorum queues only, and classic queues refuse the argument.",
    remedy="Leave out x-consumer-timeout for classic queues, or make the queue a quorum queue.",
    rule="""\
[[rules]]
name = "rabbitmq4-consumer-timeout"
action = "rewrite"
match.method = "queue.declare"
when = "!('x-queue-type' in arguments) || arguments['x-queue-type'] == 'classic'"
arguments.remove = ["x-consumer-timeout"]
""",
)

QUORUM_BYTES = Incompatibility(
    kind="rabbitmq4-quorum-bytes",
    effect=_where(lambda profile: profile.quorum_counts_properties, Level.CHANGES, "counts properties, too"),
    why="RabbitMQ 4.3 counts properties and headers in the x-max-length-bytes of quorum queues: they are full sooner.",
    remedy="Raise the limit by the size of the properties, and look at what x-overflow does with the rest.",
)

GLOBAL_QOS = Incompatibility(
    kind="rabbitmq4-global-qos",
    effect=_feature(
        "global_qos", Effect(Level.CHANGES, "takes it for each consumer of the channel"), "takes it for the channel"
    ),
    why="RabbitMQ 4.3 gives each consumer the prefetch that was for all of the channel: a client gets more at once.",
    remedy="Set the prefetch with global = false, divided by the number of consumers, or use one consumer a channel.",
    rule="""\
[[rules]]
name = "rabbitmq4-global-qos-log"
action = "log"
match.method = "basic.qos"
when = "fields.global"
level = "warning"
text = "prefetch of {fields.prefetch_count} for a channel applies to each of its consumers on RabbitMQ 4.3"

[[rules]]
name = "rabbitmq4-global-qos"
action = "rewrite"
match.method = "basic.qos"
when = "fields.global"
fields.set = {global = false}
""",
)

HA_FAILOVER = Incompatibility(
    kind="rabbitmq4-ha-failover",
    effect=_where(lambda profile: profile.ignores_ha_failover, Level.CHANGES, "ignores it, having no mirrored queues"),
    why="Mirrored classic queues are gone from RabbitMQ 4: such a queue has one copy after the upgrade.",
    remedy="Move mirrored queues to quorum queues, whose consumers go on after a failover.",
)

BASIC_CREDIT = Incompatibility(
    kind="rabbitmq4-basic-credit",
    effect=_where(
        lambda profile: not profile.knows_basic_credit, Level.BREAKS, "refuses it with 503, and closes the connection"
    ),
    why="RabbitMQ 4 does not have the method basic.credit any more.",
    remedy="Limit deliveries by basic.qos.",
)

MESSAGE_SIZE = Incompatibility(
    kind="rabbitmq4-message-size",
    effect=_message_size,
    why="RabbitMQ 4 refuses messages above its max_message_size, 16 MiB by default, and the channel is closed.",
    remedy="Raise max_message_size in rabbitmq.conf, or put the payload into an object store, and publish its address.",
)

DELIVERY_LIMIT = Incompatibility(
    kind="rabbitmq4-delivery-limit",
    effect=_delivery_limit,
    why="Quorum queues of RabbitMQ 4 have a delivery limit of 20: without a dead-letter exchange, messages are lost.",
    remedy="Give the queue a dead-letter exchange, or a delivery-limit of your own by a policy, before the upgrade.",
)

REPUBLISHED_DEATHS = Incompatibility(
    kind="rabbitmq4-x-death",
    effect=_where(lambda profile: not profile.reads_deaths, Level.CHANGES, "counts its deaths from 1 again"),
    why="RabbitMQ 4 does not read the x-death of published messages: a retry that waits for its count never ends.",
    remedy="Count retries in a header of your own, or reject messages instead of publishing them again.",
)

MANDATORY_REPLY = Incompatibility(
    kind="rabbitmq4-mandatory-reply",
    effect=_where(lambda profile: not profile.returns_replies, Level.CHANGES, "returns no reply that nobody takes"),
    why="A replier learns by basic.return that the requester is gone; from RabbitMQ 4.3, it does not.",
    remedy="Do not wait for returns of direct replies; use a queue for replies where their loss matters.",
)

HEADERS_FLOAT = Incompatibility(
    kind="rabbitmq4-headers-float",
    effect=_where(lambda profile: not profile.equates_floats, Level.CHANGES, "holds 1 and 1.0 for different"),
    why="A binding with 1.0 does not match a message with 1 any more: messages are not routed, in silence.",
    remedy="Use whole numbers, or texts, for the arguments of headers bindings, and in the messages, alike.",
)

SINGLE_ACTIVE_CONSUMER = Incompatibility(
    kind="rabbitmq4-single-active",
    effect=_where(lambda profile: not profile.successor_waits, Level.CHANGES, "lets the next consumer begin at once"),
    why="The next consumer does not wait until the cancelled one has settled its messages: two work side by side.",
    remedy="Settle all deliveries before basic.cancel, or close the channel in its place.",
)

QUORUM_PRIORITY = Incompatibility(
    kind="rabbitmq4-quorum-priority",
    effect=_priorities,
    why="RabbitMQ 3 ignores the priority of messages in quorum queues: after the upgrade, they come in another order.",
    remedy="Leave out the priority where messages must come in the order in which they were published.",
)

MIRRORED_QUEUES = Incompatibility(
    kind="rabbitmq4-mirrored-queues",
    effect=_where(
        lambda profile: profile.phases.get("classic_queue_mirroring") == "removed",
        Level.BREAKS,
        "refuses to import the policy, and has no mirrored queues",
    ),
    why="Mirrored classic queues are gone from RabbitMQ 4: such a queue has one copy, and definitions do not load.",
    remedy="Declare these queues as quorum queues, and take the keys ha-* out of the policy before the upgrade.",
)

UNKNOWN_SETTING = Incompatibility(
    kind="rabbitmq4-unknown-setting",
    effect=_where(lambda profile: bool(profile.phases), Level.BREAKS, "does not start with it"),
    why="RabbitMQ refuses to start with a key in rabbitmq.conf that it does not know.",
    remedy="Take the key out of rabbitmq.conf before the upgrade.",
)

INCOMPATIBILITIES: Mapping[str, Incompatibility] = {
    each.kind: each
    for each in (
        BASIC_CREDIT,
        CONSUMER_TIMEOUT,
        DELIVERY_LIMIT,
        FRAME_MAX,
        GLOBAL_QOS,
        HA_FAILOVER,
        HEADERS_FLOAT,
        MANDATORY_REPLY,
        MESSAGE_SIZE,
        MIRRORED_QUEUES,
        QUEUE_MASTER_LOCATOR,
        QUEUE_MODE,
        QUEUE_VERSION,
        QUORUM_BYTES,
        QUORUM_PRIORITY,
        REPUBLISHED_DEATHS,
        SINGLE_ACTIVE_CONSUMER,
        TRANSIENT_QUEUE,
        UNKNOWN_SETTING,
    )
}
"""All of them, by kind: that of their finding, if traffic can show them."""


def kinds_of(level: Level, profile: Profile) -> list[str]:
    """Return the kinds of the uses that have consequences of this level on a version."""
    effects = {kind: each.effect(profile) for kind, each in INCOMPATIBILITIES.items()}
    return [kind for kind, effect in effects.items() if effect is not None and effect.level is level]
