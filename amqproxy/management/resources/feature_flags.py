"""Feature flags of RabbitMQ 3.10 and 4.3, all enabled: this broker has what they stand for, or does without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from amqproxy.management.call import Call, Done, Entry
from amqproxy.management.failure import bad_request


class FeatureFlag(NamedTuple):
    """A feature flag, as RabbitMQ 4.3 lists it; in 3.10, all flags are stable."""

    name: str
    description: str
    page: str = ""
    stability: str = "required"
    level: str = "hard"
    plugin: str = "rabbit"
    is_old: bool = False
    """Whether RabbitMQ 3.10 has it too."""
    old_page: str = ""
    """Its page there."""


FLAGS = (
    FeatureFlag("classic_mirrored_queue_version", "Support setting version for classic mirrored queues", is_old=True),
    FeatureFlag(
        "classic_queue_type_delivery_support",
        "Bug fix for classic queue deliveries using mixed versions",
        page="https://github.com/rabbitmq/rabbitmq-server/issues/5931",
    ),
    FeatureFlag(
        "detailed_queues_endpoint",
        "Add a detailed queues HTTP API endpoint. Reduce number of metrics in the default endpoint.",
        level="soft",
        plugin="rabbitmq_management",
    ),
    FeatureFlag("direct_exchange_routing_v2", "v2 direct exchange routing implementation"),
    FeatureFlag(
        "drop_unroutable_metric",
        "Count unroutable publishes to be dropped in stats",
        plugin="rabbitmq_management_agent",
        is_old=True,
    ),
    FeatureFlag(
        "empty_basic_get_metric",
        "Count AMQP `basic.get` on empty queues in stats",
        plugin="rabbitmq_management_agent",
        is_old=True,
    ),
    FeatureFlag("feature_flags_v2", "Feature flags subsystem V2"),
    FeatureFlag(
        "implicit_default_bindings",
        "Default bindings are now implicit, instead of being stored in the database",
        is_old=True,
    ),
    FeatureFlag(
        "khepri_db",
        "New Raft-based metadata store.",
        page="https://www.rabbitmq.com/docs/next/metadata-store",
        level="soft",
    ),
    FeatureFlag("listener_records_in_ets", "Store listener records in ETS instead of Mnesia"),
    FeatureFlag("maintenance_mode_status", "Maintenance mode status", is_old=True),
    FeatureFlag("message_containers", "Message containers."),
    FeatureFlag(
        "message_containers_deaths_v2",
        "Bug fix for dead letter cycle detection",
        page="https://github.com/rabbitmq/rabbitmq-server/issues/11159",
        level="soft",
    ),
    FeatureFlag(
        "quorum_queue",
        "Support queues of type `quorum`",
        page="https://www.rabbitmq.com/docs/quorum-queues",
        is_old=True,
        old_page="https://www.rabbitmq.com/quorum-queues.html",
    ),
    FeatureFlag(
        "quorum_queue_non_voters", "Allows new quorum queue members to be added as non voters initially.", level="soft"
    ),
    FeatureFlag("rabbit_exchange_type_local_random", "Local random exchange", level="soft"),
    FeatureFlag("rabbitmq_4.0.0", "Allows rolling upgrades from 3.13.x to 4.0.x", level="soft"),
    FeatureFlag("rabbitmq_4.1.0", "Allows rolling upgrades to 4.1.x", level="soft"),
    FeatureFlag("rabbitmq_4.2.0", "Allows rolling upgrades to 4.2.x", level="soft"),
    FeatureFlag("rabbitmq_4.3.0", "Allows rolling upgrades to 4.3.x", stability="stable", level="none"),
    FeatureFlag(
        "restart_streams",
        "Support for restarting streams with optional preferred next leader argument."
        "Used to implement stream leader rebalancing",
    ),
    FeatureFlag("stream_filtering", "Support for stream filtering."),
    FeatureFlag(
        "stream_queue",
        "Support queues of type `stream`",
        page="https://www.rabbitmq.com/docs/stream",
        is_old=True,
        old_page="https://www.rabbitmq.com/stream.html",
    ),
    FeatureFlag(
        "stream_sac_coordinator_unblock_group",
        "Bug fix to unblock a group of consumers in a super stream partition",
        page="https://github.com/rabbitmq/rabbitmq-server/issues/7743",
    ),
    FeatureFlag(
        "stream_single_active_consumer",
        "Single active consumer for streams",
        page="https://www.rabbitmq.com/docs/stream",
    ),
    FeatureFlag(
        "stream_update_config_command", "A new internal command that is used to update streams as part of a policy."
    ),
    FeatureFlag(
        "tie_binding_to_dest_with_keep_while_cond",
        "Use keep_while condition to tie a binding record lifetime to its destination record in Khepri",
        stability="stable",
        level="none",
    ),
    FeatureFlag(
        "topic_binding_projection_v4", "Enable the topic binding Khepri projection v4", stability="stable", level="none"
    ),
    FeatureFlag(
        "topic_binding_projection_v5", "Enable the topic binding Khepri projection v5", stability="stable", level="none"
    ),
    FeatureFlag(
        "track_qq_members_uids", "Track queue members UIDs in the metadata store", stability="stable", level="none"
    ),
    FeatureFlag("tracking_records_in_ets", "Store tracking records in ETS instead of Mnesia"),
    FeatureFlag("user_limits", "Configure connection and channel limits for a user", is_old=True),
    FeatureFlag("virtual_host_metadata", "Virtual host metadata (description, tags, etc)", is_old=True),
)
"""Feature flags of RabbitMQ 4.3, among them all of 3.10."""


async def feature_flags(call: Call) -> list[Entry]:
    """Return the feature flags of the version that the broker behaves as."""
    return list(_rows(is_4=call.facts.is_4))


async def enable_feature_flag(call: Call) -> Done:
    """Accept to enable a known feature flag, which is enabled."""
    if call.values["name"] not in {each["name"] for each in _rows(is_4=call.facts.is_4)}:
        raise bad_request("unsupported")
    return Done()


def _rows(*, is_4: bool) -> Iterator[Entry]:
    for each in FLAGS:
        row: Entry = {
            "name": each.name,
            "desc": each.description,
            "doc_url": each.page if is_4 else each.old_page,
            "state": "enabled",
            "stability": each.stability if is_4 else "stable",
            "provided_by": each.plugin,
        }
        if is_4:
            yield row | {"require_level": each.level, "experiment_level": "supported", "callbacks": []}
        elif each.is_old:
            yield row
