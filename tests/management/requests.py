"""The requests that both APIs are asked: paths by users, and lists with every parameter."""

from __future__ import annotations

import re
from typing import NamedTuple

OF_4 = re.compile(
    r"health/checks/quorum-|stream/|queues/quorum/|connections/[^/]+/sessions"
    r"|vhosts/[^/]+/deletion/|login$|shovels/vhost/%2F/s\b"
)
"""Paths of RabbitMQ 4 alone, for which 3.10's web server has other refusals than for a path that is unknown; and those
of a shovel, which 3.10 does not find while the shovel restarts.
"""


class Asked(NamedTuple):
    """A request that changes nothing; `{node}`, `{connection}` and `{channel}` stand for names that differ."""

    path: str
    user: str | None = "guest"
    password: str | None = None
    method: str = "GET"

    def __str__(self) -> str:
        return f"{self.method} {self.path} by {self.user}{' wrongly' if self.password else ''}"


PATHS = """
auth all-configuration connections/{connection}/sessions connections/nope/sessions traces
health/checks/quorum-queues-without-elected-leaders/all-vhosts federation-links/%2F/state/down
health/checks/quorum-queues-without-elected-leaders/vhost/%2F
topic-permissions/%2F/mary/amq.topic topic-permissions/%2F/mary/nope topic-permissions/%2F/nope/amq.topic
overview whoami cluster-name nodes nodes/{node} version deprecated-features vhosts vhosts/%2F vhosts/a%2Fb
vhosts/nope vhosts/%2F/permissions vhosts/%2F/topic-permissions vhosts/nope/permissions
vhosts/%2F/connections vhosts/%2F/channels vhosts/other/channels vhosts/nope/connections vhost-limits
vhost-limits/other vhost-limits/%2F vhost-limits/nope users users/guest users/mary users/nope
users/mary/permissions users/mary/topic-permissions users/nope/permissions users/without-permissions
user-limits user-limits/mary user-limits/guest user-limits/nope permissions permissions/%2F/mary
permissions/%2F/mona permissions/%2F/nope permissions/nope/mary topic-permissions topic-permissions/%2F/mary
topic-permissions/%2F/guest queues queues/%2F queues/other queues/nope queues/detailed queues/%2F/limited
queues/%2F/consumed queues/%2F/many queues/%2F/log queues/%2F/exclusive queues/%2F/nope queues/nope/limited
queues/other/limited queues/%2F/limited/bindings queues/%2F/nope/bindings exchanges exchanges/%2F
exchanges/other exchanges/nope
exchanges/%2F/topical exchanges/%2F/amq.default exchanges/%2F/amq.topic exchanges/%2F/nope
exchanges/%2F/topical/bindings/source exchanges/%2F/amq.fanout/bindings/destination
exchanges/%2F/amq.default/bindings/source exchanges/%2F/nope/bindings/source bindings bindings/%2F
bindings/other bindings/nope bindings/%2F/e/topical/q/limited bindings/%2F/e/topical/q/limited/b
bindings/%2F/e/topical/q/limited/~ bindings/%2F/e/topical/q/limited/nope bindings/%2F/e/topical/e/amq.fanout
bindings/%2F/e/topical/e/amq.fanout/c bindings/%2F/e/amq.default/q/limited bindings/%2F/e/topical/q/consumed
policies policies/%2F policies/other policies/%2F/theirs policies/%2F/nope policies/nope operator-policies
operator-policies/%2F operator-policies/%2F/ours operator-policies/%2F/nope parameters
parameters/vhost-limits parameters/vhost-limits/other parameters/vhost-limits/other/limits parameters/nope
parameters/vhost-limits/other/nope parameters/operator_policy/%2F parameters/vhost-limits/nope
global-parameters/cluster_name global-parameters/nope connections connections/{connection} connections/nope
connections/{connection}/channels connections/username/guest connections/username/mary channels
channels/{channel} channels/nope consumers consumers/%2F consumers/other consumers/nope definitions
definitions/%2F definitions/a%2Fb healthchecks/node health/checks/alarms health/checks/local-alarms
health/checks/virtual-hosts health/checks/port-listener/1 health/checks/port-listener/x
health/checks/protocol-listener/amqp health/checks/protocol-listener/mqtt
health/checks/certificate-expiration/1/months health/checks/certificate-expiration/1/nope
health/checks/certificate-expiration/x/days health/checks/node-is-mirror-sync-critical
health/checks/node-is-quorum-critical health/checks/is-in-service health/checks/ready-to-serve-clients
health/checks/below-node-connection-limit health/checks/nope health/checks/metadata-store/initialized
health/checks/metadata-store/initialized/with-data health/checks/reached-target-cluster-size nope nope/nope
nodes/{node}/memory nodes/{node}/memory/relative nodes/nope/memory nodes/nope/memory/relative
deprecated-features/used feature-flags auth/attempts/nope auth/attempts/nope/source auth/attempts/{node}/source
healthchecks/node/{node} healthchecks/node/nope shovels shovels/%2F shovels/nope shovels/vhost/%2F/nope
federation-links federation-links/%2F federation-links/nope federation-links/state/down stream/connections
stream/connections/%2F stream/connections/nope stream/connections/%2F/nope
stream/connections/%2F/nope/publishers stream/publishers stream/publishers/%2F stream/publishers/%2F/log
stream/publishers/%2F/nope stream/consumers stream/consumers/other stream/%2F/log/tracking
stream/%2F/limited/tracking stream/%2F/nope/tracking queues/quorum/%2F/many/status
queues/quorum/%2F/limited/status queues/quorum/%2F/log/status queues/quorum/%2F/nope/status
""".split()  # noqa: SIM905 - a table
"""Paths that an administrator asks for."""

LISTS = """
queues?page=1 queues?page=1&page_size=2 queues?page=2&page_size=2 queues?page=9 queues?page=0 queues?page=-1
queues?page=x queues?page=1&page_size=501 queues?page=1&page_size=x queues?page_size=2
queues?page=1&name=LIM queues?page=1&name=^l&use_regex=true queues?page=1&name=[&use_regex=true
queues?page=1&name=nope queues?sort=name&sort_reverse=true queues?sort=messages
queues?sort=messages&sort_reverse=true queues?sort=nope queues?sort=arguments.x-max-length
queues?columns=name,vhost queues?columns=nope queues?page=1&columns=name queues?disable_stats=true
queues?disable_stats=true&enable_queue_totals=true queues/%2F/limited?disable_stats=true
queues/%2F/limited?disable_stats=true&enable_queue_totals=true queues/%2F/many?disable_stats=true
queues/%2F/many?disable_stats=true&enable_queue_totals=true queues/%2F/log?disable_stats=true
queues/%2F/log?disable_stats=true&enable_queue_totals=true queues?enable_queue_totals=true&columns=name,messages
queues/%2F/limited?columns=name,messages exchanges?page=1&page_size=3 exchanges?columns=name,type&sort=type
exchanges?page=1&name=^amq&use_regex=true connections?page=1 connections?columns=name,user channels?page=1
channels?columns=number consumers?page=1 consumers?columns=consumer_tag,queue.name users?page=1
users?columns=name,tags bindings?page=1 bindings?columns=source,destination,routing_key,vhost,properties_key
bindings?sort=destination policies?page=1 queues?columns=name,arguments overview?columns=queue_totals,node
permissions?columns=vhost,user,read
""".split()  # noqa: SIM905 - a table
"""Lists with parameters."""

RANGES = """
queues?lengths_age=501&lengths_incr=1 queues?page=1&lengths_age=501&lengths_incr=1
queues?columns=name&lengths_age=501&lengths_incr=1 queues/%2F/limited?msg_rates_age=5010&msg_rates_incr=10
overview?columns=node&lengths_age=x&lengths_incr=1 overview?columns=node&lengths_age=-60&lengths_incr=5
overview?columns=node&lengths_age=0&lengths_incr=5 overview?columns=node&lengths_age=60&lengths_incr=0
overview?columns=node&lengths_age=500&lengths_incr=1 overview?columns=node&lengths_age=60
overview?columns=node&lengths_age=&lengths_incr=5
overview?columns=node&lengths_age=501&lengths_incr=1 nodes?columns=name&node_stats_age=501&node_stats_incr=1
vhosts?msg_rates_age=501&msg_rates_incr=1 exchanges?msg_rates_age=501&msg_rates_incr=1
exchanges?columns=name&msg_rates_age=501&msg_rates_incr=1
connections?columns=name,user&data_rates_age=501&data_rates_incr=1 users?columns=name&lengths_age=501&lengths_incr=1
channels?columns=number&msg_rates_age=501&msg_rates_incr=1 bindings?columns=source&lengths_age=501&lengths_incr=1
""".split()  # noqa: SIM905 - a table
"""Ranges of samples, some of them longer than RabbitMQ allows."""

METHODS = [
    Asked(path, method=method)
    for path in ("overview", "queues", "queues/%2F/limited", "nope", "whoami", "health/checks/alarms")
    for method in ("HEAD", "OPTIONS")
] + [Asked("overview", method="DELETE"), Asked("whoami", method="POST"), Asked("connections", method="PUT")]

OF_ROLES = """
overview whoami nodes vhosts vhosts/%2F vhosts/%2F/permissions vhosts/%2F/connections vhosts/nope
vhost-limits vhost-limits/other vhost-limits/nope users users/mary user-limits user-limits/mary permissions
topic-permissions queues queues/%2F queues/other queues/nope queues/%2F/limited exchanges exchanges/other
bindings bindings/other bindings/%2F/e/topical/q/limited policies policies/other operator-policies
parameters parameters/vhost-limits/other/limits global-parameters/cluster_name connections
connections/{connection} connections/username/guest connections/username/mary channels channels/{channel}
consumers consumers/other definitions definitions/%2F health/checks/alarms healthchecks/node nope version
nodes/{node}/memory deprecated-features/used feature-flags auth/attempts/{node}/source auth/hash_password/x
healthchecks/node/{node} shovels shovels/%2F shovels/nope shovels/vhost/%2F/nope federation-links
federation-links/%2F federation-links/state/down stream/connections stream/connections/%2F
stream/connections/other stream/publishers stream/consumers stream/%2F/log/tracking
queues/quorum/%2F/many/status queues/quorum/other/many/status
""".split()  # noqa: SIM905 - a table
"""Paths that users with each tag ask for."""

REQUESTS = [
    *map(Asked, PATHS),
    *map(Asked, LISTS),
    *map(Asked, RANGES),
    *METHODS,
    *(Asked(path, user) for path in OF_ROLES for user in ("mona", "paul", "mary")),
    *(Asked(path, "nick") for path in ("overview", "queues", "nodes", "users", "nope", "version")),
    *(Asked(path, None) for path in ("overview", "queues", "nope", "version")),
    *(Asked(path, "guest", "wrong") for path in ("overview", "queues")),
    Asked("overview", "nobody"),
    Asked("auth", None),
    Asked("all-configuration", "mona"),
    Asked("connections/{connection}/sessions", "mary"),
]
