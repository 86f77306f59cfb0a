"""The paths of the API: which handler answers each, for whom, and in which RabbitMQ versions."""

from __future__ import annotations

from amqproxy.management.access import Access
from amqproxy.management.resources import (
    bindings,
    channels,
    connections,
    consumers,
    definitions,
    exchanges,
    features,
    health_checks,
    limits,
    messages,
    nodes,
    overview,
    parameters,
    permissions,
    policies,
    queues,
    users,
    vhosts,
)
from amqproxy.management.route import Handler, Route

ALL = (0, 0)
NEVER = (99, 0)


def _get(
    path: str,
    handler: Handler,
    access: Access = Access.MANAGEMENT,
    since: tuple[int, int] = ALL,
    until: tuple[int, int] = NEVER,
    *,
    writes: Access | None = None,
    **changes: Handler,
) -> Route:
    """Return a path that is read, and with `put`, `post` or `delete` changed."""
    methods = {"GET": handler, **{name.upper(): each for name, each in changes.items()}}
    return Route(path, methods, access, writes, since, until)


def _post(path: str, handler: Handler, access: Access) -> Route:
    return Route(path, {"POST": handler}, access)


V4 = (4, 0)

ROUTES: tuple[Route, ...] = (
    _get("overview", overview.overview),
    _get("cluster-name", overview.show_cluster_name, writes=Access.ADMINISTRATOR, put=parameters.put_cluster_name),
    _get("whoami", overview.whoami),
    _get("version", overview.version, Access.ANYONE, since=V4),
    _get("extensions", overview.extensions),
    _get("nodes", nodes.nodes, Access.MONITOR),
    _get("nodes/{node}", nodes.node, Access.MONITOR),
    _get("deprecated-features", features.deprecated_features, since=V4),
    _get("definitions", definitions.definitions, Access.ADMINISTRATOR, post=definitions.import_definitions),
    _get("definitions/{vhost}", definitions.of_vhost, Access.ADMINISTRATOR, post=definitions.import_definitions),
    _get("vhosts", vhosts.vhosts),
    _get("vhosts/{vhost}", vhosts.vhost, Access.ADMINISTRATOR, put=vhosts.put_vhost, delete=vhosts.delete_vhost),
    _get("vhosts/{vhost}/permissions", permissions.of_vhost("permissions"), Access.ADMINISTRATOR),
    _get("vhosts/{vhost}/topic-permissions", permissions.of_vhost("topic-permissions"), Access.ADMINISTRATOR),
    _get("vhosts/{vhost}/connections", connections.connections, Access.VHOST),
    _get("vhosts/{vhost}/channels", channels.channels, Access.VHOST),
    _get("vhost-limits", limits.vhost_limits),
    _get("vhost-limits/{vhost}", limits.vhost_limits, Access.VHOST_OR_MONITOR),
    Route(
        "vhost-limits/{vhost}/{name}",
        {"PUT": limits.put_vhost_limit, "DELETE": limits.delete_vhost_limit},
        Access.ADMINISTRATOR,
    ),
    _get("users", users.users, Access.ADMINISTRATOR),
    _get("users/without-permissions", users.without_permissions, Access.ADMINISTRATOR),
    _post("users/bulk-delete", users.bulk_delete, Access.ADMINISTRATOR),
    _get("users/{user}", users.user, Access.ADMINISTRATOR, put=users.put_user, delete=users.delete_user),
    _get("users/{user}/permissions", permissions.of_user("permissions"), Access.ADMINISTRATOR),
    _get("users/{user}/topic-permissions", permissions.of_user("topic-permissions"), Access.ADMINISTRATOR),
    _get("user-limits", limits.user_limits, until=V4),
    _get("user-limits", limits.user_limits, Access.ADMINISTRATOR, since=V4),
    _get("user-limits/{user}", limits.user_limits, until=V4),
    _get("user-limits/{user}", limits.user_limits, Access.SELF_OR_MONITOR, since=V4),
    Route(
        "user-limits/{user}/{name}",
        {"PUT": limits.put_user_limit, "DELETE": limits.delete_user_limit},
        Access.ADMINISTRATOR,
    ),
    _get("permissions", permissions.everywhere("permissions"), Access.ADMINISTRATOR),
    _get(
        "permissions/{vhost}/{user}",
        permissions.permission,
        Access.ADMINISTRATOR,
        put=permissions.put_permission,
        delete=permissions.delete_permission,
    ),
    _get("topic-permissions", permissions.everywhere("topic-permissions"), Access.ADMINISTRATOR),
    _get(
        "topic-permissions/{vhost}/{user}",
        permissions.topic_permissions,
        Access.ADMINISTRATOR,
        put=permissions.put_topic_permission,
        delete=permissions.delete_topic_permissions,
    ),
    _get("queues", queues.queues),
    _get("queues/detailed", queues.detailed_queues, since=V4),
    _get("queues/{vhost}", queues.queues, Access.VHOST),
    _get("queues/{vhost}/{name}", queues.queue, Access.VHOST, put=queues.put_queue, delete=queues.delete_queue),
    Route("queues/{vhost}/{name}/contents", {"DELETE": queues.purge}, Access.VHOST),
    _post("queues/{vhost}/{name}/get", messages.get, Access.VHOST),
    _get("queues/{vhost}/{name}/bindings", bindings.of_queue, Access.VHOST),
    _get("exchanges", exchanges.exchanges),
    _get("exchanges/{vhost}", exchanges.exchanges, Access.VHOST),
    _get(
        "exchanges/{vhost}/{name}",
        exchanges.exchange,
        Access.VHOST,
        put=exchanges.put_exchange,
        delete=exchanges.delete_exchange,
    ),
    _post("exchanges/{vhost}/{name}/publish", messages.publish, Access.VHOST),
    _get("exchanges/{vhost}/{name}/bindings/source", bindings.from_exchange, Access.VHOST),
    _get("exchanges/{vhost}/{name}/bindings/destination", bindings.to_exchange, Access.VHOST),
    _get("bindings", bindings.bindings),
    _get("bindings/{vhost}", bindings.bindings, Access.VHOST),
    _get("bindings/{vhost}/e/{source}/{kind}/{destination}", bindings.between, Access.VHOST, post=bindings.bind),
    _get(
        "bindings/{vhost}/e/{source}/{kind}/{destination}/{properties}",
        bindings.binding,
        Access.VHOST,
        delete=bindings.unbind,
    ),
    _get("policies", policies.listing("policies")),
    _get("policies/{vhost}", policies.listing("policies"), Access.VHOST),
    _get(
        "policies/{vhost}/{name}",
        policies.one("policies"),
        Access.VHOST,
        writes=Access.VHOST_POLICYMAKER,
        put=policies.putting(is_operator=False),
        delete=policies.deleting(is_operator=False),
    ),
    _get("operator-policies", policies.listing("operator-policies")),
    _get("operator-policies/{vhost}", policies.listing("operator-policies"), Access.VHOST),
    _get(
        "operator-policies/{vhost}/{name}",
        policies.one("operator-policies"),
        Access.VHOST,
        writes=Access.ADMINISTRATOR,
        put=policies.putting(is_operator=True),
        delete=policies.deleting(is_operator=True),
    ),
    _get("parameters", parameters.parameters, Access.POLICYMAKER),
    _get("parameters/{component}", parameters.parameters, Access.POLICYMAKER),
    _get("parameters/{component}/{vhost}", parameters.parameters, Access.VHOST_POLICYMAKER),
    _get("parameters/{component}/{vhost}/{name}", parameters.parameter, Access.VHOST_POLICYMAKER),
    _get("global-parameters", parameters.global_parameters, Access.POLICYMAKER),
    _get(
        "global-parameters/{name}",
        parameters.global_parameter,
        Access.POLICYMAKER,
        put=parameters.put_global_parameter,
        delete=parameters.delete_global_parameter,
    ),
    _get("connections", connections.connections),
    _get("connections/username/{user}", connections.of_user, Access.SELF_OR_MONITOR, delete=connections.close_of_user),
    _get("connections/{connection}", connections.connection, delete=connections.close_connection),
    _get("connections/{connection}/channels", channels.of_connection),
    _get("channels", channels.channels),
    _get("channels/{channel}", channels.channel),
    _get("consumers", consumers.consumers),
    _get("consumers/{vhost}", consumers.consumers, Access.VHOST_OR_MONITOR, since=V4),
    _get("consumers/{vhost}", consumers.consumers, until=V4),
    _get("aliveness-test/{vhost}", health_checks.aliveness, Access.VHOST),
    _get("healthchecks/node", health_checks.passes),
    _get("health/checks/alarms", health_checks.alarms),
    _get("health/checks/local-alarms", health_checks.alarms),
    _get("health/checks/virtual-hosts", health_checks.passes),
    _get("health/checks/port-listener/{port}", health_checks.port_listener),
    _get("health/checks/protocol-listener/{protocol}", health_checks.protocol_listener),
    _get("health/checks/certificate-expiration/{within}/{unit}", health_checks.certificate_expiration),
    _get("health/checks/node-is-mirror-sync-critical", health_checks.single_node, until=V4),
    _get("health/checks/node-is-quorum-critical", health_checks.single_node),
    _get("health/checks/is-in-service", health_checks.passes, since=V4),
    _get("health/checks/ready-to-serve-clients", health_checks.passes, since=V4),
    _get("health/checks/below-node-connection-limit", health_checks.connection_limit, since=V4),
    _get("health/checks/metadata-store/initialized", health_checks.passes, since=V4),
    _get("health/checks/metadata-store/initialized/with-data", health_checks.passes, since=V4),
    _get("health/checks/reached-target-cluster-size", health_checks.passes, since=V4),
    _get(
        "health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}/pattern/{pattern}",
        health_checks.passes,
        since=V4,
    ),
    _get(
        "health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/{pattern}",
        health_checks.passes,
        since=V4,
    ),
)
"""All paths below `/api`."""
