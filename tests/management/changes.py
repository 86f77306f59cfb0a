"""Requests that change a broker, in an order in which each finds what those before it have left."""

from __future__ import annotations

from typing import Any, NamedTuple


class Change(NamedTuple):
    """A request that both APIs are sent."""

    method: str
    path: str
    body: Any = None
    user: str = "guest"
    has_own_text: bool = False
    """Whether the reason of the refusal is in words of our own: RabbitMQ's has those of Erlang's library."""

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.body!r:.60} by {self.user}"


ALL = {"configure": ".*", "write": ".*", "read": ".*"}
LASTING = {"durable": True, "auto_delete": False}
REQUEUED = {"ackmode": "ack_requeue_true", "encoding": "auto"}
POLICY = {"pattern": "^p", "definition": {"max-length": 5}, "priority": 2, "apply-to": "queues"}

VHOSTS = [
    Change("PUT", "vhosts/new", {"description": "d", "tags": "a,b"}),
    Change("PUT", "vhosts/new", {"description": "e"}),
    Change("PUT", "vhosts/empty"),
    Change("GET", "vhosts/new"),
    Change("GET", "permissions/new/guest"),
    Change("PUT", "vhosts/refused", {}, "mary"),
    Change("PUT", "vhosts/broken", b"{"),
    Change("DELETE", "vhosts/empty"),
    Change("DELETE", "vhosts/empty"),
    Change("DELETE", "vhosts/new", user="mona"),
]

USERS = [
    Change("PUT", "users/ann", {"password": "ann", "tags": "management"}),
    Change("PUT", "users/ann", {"password": "other", "tags": ["monitoring", "x"]}),
    Change("PUT", "users/hashed", {"password_hash": "dLnmB8QG4Qe21yv2oEiqHqXqLJquJ4WqtWA1VFii3hfEcaR+", "tags": ""}),
    Change("PUT", "users/hashless", {"password_hash": "", "tags": ""}),
    Change("PUT", "users/tagless", {"password": "x"}),
    Change("PUT", "users/nothing", {"tags": ""}),
    Change("PUT", "users/broken", {"password_hash": "not base64!", "tags": ""}),
    Change("PUT", "users/refused", {"password": "x", "tags": ""}, "mona"),
    Change("GET", "users/hashed"),
    Change("GET", "whoami", user="ann"),
    Change("DELETE", "users/hashed"),
    Change("DELETE", "users/hashed"),
    Change("DELETE", "users/ann", user="mary"),
    Change("POST", "users/bulk-delete", {"users": ["hashless", "nobody"]}),
    Change("POST", "users/bulk-delete", {"nothing": 1}),
    Change("PUT", "permissions/new/ann", ALL),
    Change("PUT", "permissions/new/ann", {**ALL, "read": "r"}),
    Change("PUT", "permissions/new/ann", {"configure": "c"}),
    Change("PUT", "permissions/new/ann", {**ALL, "read": "["}, has_own_text=True),
    Change("PUT", "permissions/new/nobody", ALL),
    Change("PUT", "permissions/none/ann", ALL),
    Change("GET", "permissions/new/ann"),
    Change("PUT", "topic-permissions/new/ann", {"exchange": "amq.topic", "write": "w", "read": "r"}),
    Change("PUT", "topic-permissions/new/ann", {"exchange": "amq.topic", "write": "["}),
    Change("GET", "topic-permissions/new/ann"),
    Change("DELETE", "topic-permissions/new/ann"),
    Change("DELETE", "topic-permissions/new/ann"),
    Change("DELETE", "permissions/new/ann"),
    Change("DELETE", "permissions/new/ann"),
    Change("PUT", "user-limits/ann/max-connections", {"value": 3}),
    Change("PUT", "user-limits/ann/max-nothing", {"value": 3}),
    Change("PUT", "user-limits/ann/max-channels", {"value": "x"}),
    Change("PUT", "user-limits/nobody/max-channels", {"value": 1}),
    Change("PUT", "user-limits/ann/max-channels", {}),
    Change("GET", "user-limits/ann"),
    Change("DELETE", "user-limits/ann/max-connections"),
    Change("GET", "user-limits/ann"),
    Change("PUT", "vhost-limits/new/max-queues", {"value": 4}),
    Change("PUT", "vhost-limits/new/max-nothing", {"value": 4}),
    Change("PUT", "vhost-limits/none/max-queues", {"value": 4}),
    Change("GET", "vhost-limits/new"),
    Change("DELETE", "vhost-limits/new/max-queues"),
    Change("GET", "vhost-limits/new"),
]

QUEUES = [
    Change("PUT", "queues/%2F/made", {"durable": True, "arguments": {"x-max-length": 10}}),
    Change("PUT", "queues/%2F/made", {"durable": True, "arguments": {"x-max-length": 10}}),
    Change("PUT", "queues/%2F/made", {"durable": True, "arguments": {"x-max-length": 11}}),
    Change("PUT", "queues/%2F/usual", {}),
    Change("PUT", "queues/%2F/passing", {"auto_delete": True, "durable": True}),
    Change("PUT", "queues/%2F/text", {"durable": "true"}),
    Change("PUT", "queues/%2F/odd", {"durable": "odd"}),
    Change("PUT", "queues/%2F/wrong", {"arguments": {"x-max-length": -1}}),
    Change("PUT", "queues/%2F/typed", {"arguments": {"x-queue-type": "nope"}}),
    Change("PUT", "queues/%2F/amq.reserved", {}),
    Change("PUT", "queues/none/made", {}),
    Change("PUT", "queues/%2F/by-mona", {}, "mona"),
    Change("PUT", "queues/%2F/by-mary", {}, "mary"),
    Change("GET", "queues/%2F/made?disable_stats=true"),
    Change("PUT", "exchanges/%2F/ours", {"type": "direct"}),
    Change("PUT", "exchanges/%2F/ours", {"type": "direct"}),
    Change("PUT", "exchanges/%2F/ours", {"type": "fanout"}),
    Change("PUT", "exchanges/%2F/inner", {"type": "topic", "durable": True, "internal": True, "auto_delete": False}),
    Change("PUT", "exchanges/%2F/typeless", {}),
    Change("PUT", "exchanges/%2F/of-null", b"null"),
    Change("DELETE", "exchanges/%2F/of-null"),
    Change("PUT", "vhosts/of-null", b"null"),
    Change("DELETE", "vhosts/of-null"),
    Change("PUT", "users/of-null", b"null"),
    Change("PUT", "exchanges/%2F/nope", {"type": "of-no-plugin"}),
    Change("PUT", "exchanges/%2F/amq.ours", {"type": "direct"}),
    Change("GET", "exchanges/%2F/inner"),
    Change("POST", "bindings/%2F/e/ours/q/made", {"routing_key": "k", "arguments": {}}),
    Change("POST", "bindings/%2F/e/ours/q/made", {}),
    Change("POST", "bindings/%2F/e/ours/q/made", {"routing_key": "a.*/b"}),
    Change("POST", "bindings/%2F/e/ours/e/inner", {"routing_key": "k"}),
    Change("POST", "bindings/%2F/e/ours/q/none", {"routing_key": "k"}),
    Change("POST", "bindings/%2F/e/none/q/made", {"routing_key": "k"}),
    Change("POST", "bindings/%2F/e/amq.default/q/made", {"routing_key": "k"}),
    Change("GET", "bindings/%2F/e/ours/q/made"),
    Change("GET", "bindings/%2F/e/ours/q/made/k"),
    Change("DELETE", "bindings/%2F/e/ours/q/made/k"),
    Change("DELETE", "bindings/%2F/e/ours/q/made/k"),
    Change("DELETE", "bindings/%2F/e/ours/q/made/~"),
    Change("DELETE", "bindings/%2F/e/ours/e/inner/k"),
    Change("GET", "bindings/%2F/e/ours/q/made"),
    Change("PUT", "policies/%2F/ours", POLICY),
    Change("PUT", "policies/%2F/ours", {**POLICY, "priority": 3}),
    Change("PUT", "policies/%2F/patternless", {"definition": {"max-length": 5}}),
    Change("PUT", "policies/%2F/wrong", {**POLICY, "definition": {"nope": 5}}),
    Change("PUT", "policies/%2F/wrong", {**POLICY, "pattern": "["}, has_own_text=True),
    Change("PUT", "policies/%2F/wrong", {**POLICY, "apply-to": "nothing"}),
    Change("PUT", "policies/%2F/wrong", {**POLICY, "definition": {"max-length": "x"}}),
    Change("PUT", "policies/%2F/by-mary", POLICY, "mary"),
    Change("PUT", "policies/%2F/by-paul", POLICY, "paul"),
    Change("GET", "policies/%2F"),
    Change("DELETE", "policies/%2F/by-paul"),
    Change("DELETE", "policies/%2F/by-paul"),
    Change("PUT", "operator-policies/%2F/op", POLICY),
    Change("PUT", "operator-policies/%2F/wrong", {**POLICY, "definition": {"dead-letter-exchange": "x"}}),
    Change("PUT", "operator-policies/%2F/by-paul", POLICY, "paul"),
    Change("GET", "operator-policies/%2F"),
    Change("DELETE", "operator-policies/%2F/op"),
    Change("PUT", "global-parameters/g", {"value": {"a": 1}}),
    Change("PUT", "global-parameters/g", {}),
    Change("GET", "global-parameters/g"),
    Change("DELETE", "global-parameters/g"),
    Change("DELETE", "global-parameters/g"),
    Change("PUT", "cluster-name", {"name": "renamed"}),
    Change("GET", "cluster-name"),
    Change("PUT", "cluster-name", {"name": "no"}, "mona"),
]

MESSAGES = [
    Change(
        "POST",
        "exchanges/%2F/amq.default/publish",
        {"properties": {"delivery_mode": 2, "headers": {"h": 1}, "message_id": "m"}, "routing_key": "made"}
        | {"payload": "hello", "payload_encoding": "string"},
    ),
    Change(
        "POST",
        "exchanges/%2F/amq.default/publish",
        {"properties": {}, "routing_key": "made", "payload": "/w==", "payload_encoding": "base64"},
    ),
    Change(
        "POST",
        "exchanges/%2F/amq.default/publish",
        {"properties": {}, "routing_key": "nobody", "payload": "x", "payload_encoding": "string"},
    ),
    Change(
        "POST",
        "exchanges/%2F/amq.default/publish",
        {"properties": {}, "routing_key": "made", "payload": "x", "payload_encoding": "nope"},
    ),
    Change(
        "POST",
        "exchanges/%2F/amq.default/publish",
        {"properties": {}, "routing_key": "made", "payload": "!", "payload_encoding": "base64"},
    ),
    Change(
        "POST",
        "exchanges/%2F/amq.default/publish",
        {"properties": {"user_id": "ann"}, "routing_key": "made", "payload": "x", "payload_encoding": "string"},
    ),
    Change(
        "POST",
        "exchanges/%2F/amq.default/publish",
        {"properties": {"expiration": "x"}, "routing_key": "made", "payload": "x", "payload_encoding": "string"},
    ),
    Change("POST", "exchanges/%2F/amq.default/publish", {"properties": {}}),
    Change("PUT", "permissions/%2F/paul", {"configure": ".*", "write": "^amq.topic$", "read": ".*"}),
    Change("PUT", "topic-permissions/%2F/paul", {"exchange": "amq.topic", "write": "^w", "read": ".*"}),
    *[
        Change(
            "POST",
            f"exchanges/%2F/{exchange}/publish",
            {"properties": {}, "routing_key": key, "payload": "x", "payload_encoding": "string"},
            "paul",
        )
        for exchange, key in (("amq.direct", "w"), ("amq.topic", "w"), ("amq.topic", "v"), ("amq.default", "made"))
    ],
    Change("DELETE", "topic-permissions/%2F/paul"),
    Change("PUT", "permissions/%2F/paul", {"configure": ".*", "write": ".*", "read": ".*"}),
    Change(
        "POST",
        "exchanges/%2F/none/publish",
        {"properties": {}, "routing_key": "made", "payload": "x", "payload_encoding": "string"},
    ),
    Change("PUT", "queues/%2F/full", {**LASTING, "arguments": {"x-max-length": 1, "x-overflow": "reject-publish"}}),
    *[
        Change(
            "POST",
            "exchanges/%2F/amq.default/publish",
            {"properties": {}, "routing_key": "full", "payload": text, "payload_encoding": "string"},
        )
        for text in ("taken", "rejected")
    ],
    Change("DELETE", "queues/%2F/full"),
    Change("POST", "queues/%2F/made/get", {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}),
    Change("POST", "queues/%2F/made/get", {"count": 1, "ackmode": "reject_requeue_true", "encoding": "base64"}),
    Change("POST", "queues/%2F/made/get", {"count": 5, **REQUEUED, "truncate": 2}),
    Change("POST", "queues/%2F/made/get", {"count": 1, "ackmode": "nope", "encoding": "auto"}),
    Change("POST", "queues/%2F/made/get", {"count": 1}),
    Change("POST", "queues/%2F/made/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}),
    Change("POST", "queues/%2F/none/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}),
    Change("POST", "queues/%2F/made/get", {"count": 5, "ackmode": "reject_requeue_false", "encoding": "auto"}),
    Change("POST", "queues/%2F/made/get", {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}),
    Change("DELETE", "queues/%2F/made/contents"),
    Change("DELETE", "queues/%2F/none/contents"),
    Change("DELETE", "queues/%2F/by-mary/contents", user="mona"),
]

QUORUM = [
    *[Change("POST", f"queues/quorum/%2F/{name}/replicas/add", {"node": "x"}) for name in ("many", "none")],
    Change("POST", "queues/quorum/%2F/many/replicas/add", {}),
    Change("POST", "queues/quorum/%2F/many/replicas/add", {"node": "x"}, "mary"),
    Change("DELETE", "queues/quorum/%2F/many/replicas/delete", {"node": "x"}),
    Change("DELETE", "queues/quorum/%2F/many/replicas/delete", {}),
    Change("POST", "queues/quorum/replicas/on/nope/grow", {"strategy": "all"}),
    Change("POST", "queues/quorum/replicas/on/nope/grow", {}),
    Change("POST", "queues/quorum/replicas/on/nope/grow", {}, "mona"),
    Change("DELETE", "queues/quorum/replicas/on/nope/shrink"),
    Change("GET", "queues/quorum/replicas/on/nope/shrink"),
]

DELETIONS = [
    Change("DELETE", "queues/%2F/consumed?if-unused=true"),
    Change("DELETE", "queues/%2F/limited?if-empty=true"),
    Change("DELETE", "queues/%2F/exclusive"),
    Change("DELETE", "queues/%2F/made"),
    Change("DELETE", "queues/%2F/made"),
    Change("DELETE", "queues/%2F/by-mary", user="paul"),
    Change("DELETE", "exchanges/%2F/topical?if-unused=true"),
    Change("DELETE", "exchanges/%2F/ours"),
    Change("DELETE", "exchanges/%2F/ours"),
    Change("DELETE", "exchanges/%2F/amq.topic"),
    Change("POST", "definitions", {"queues": [{"name": "imported", "vhost": "/", **LASTING}]}),
    Change("POST", "definitions", {"queues": [{"name": "nowhere", "vhost": "none", "durable": True}]}),
    Change(
        "POST",
        "definitions",
        {"exchanges": [{"name": "x", "vhost": "/", "type": "nope", **LASTING, "internal": False, "arguments": {}}]},
        has_own_text=True,
    ),
    Change("POST", "definitions", b"{"),
    Change("POST", "definitions", {}, "mona"),
    Change(
        "POST",
        "definitions/%2F",
        {"queues": [{"name": "own", "durable": True, "auto_delete": False, "arguments": {}}]},
    ),
    Change("POST", "definitions/none", {"queues": []}),
    Change(
        "POST",
        "definitions/%2F",
        {"queues": [{"name": "elsewhere", "vhost": "other", **LASTING, "arguments": {}}], "vhosts": [{"name": "made"}]},
    ),
    Change("GET", "queues/%2F/elsewhere?disable_stats=true"),
    Change("GET", "queues/other/elsewhere?disable_stats=true"),
    Change("GET", "vhosts/made"),
    Change("GET", "queues/%2F/imported?disable_stats=true"),
    Change("GET", "queues/%2F/own?disable_stats=true"),
    Change("GET", "aliveness-test/%2F"),
    Change("GET", "aliveness-test/none"),
    Change("GET", "aliveness-test/other", user="mary"),
    Change("GET", "queues/%2F/aliveness-test?columns=name,vhost,durable"),
    Change("POST", "definitions", {"vhosts": [{"name": "kept", "metadata": {"protected_from_deletion": True}}]}),
    Change("DELETE", "vhosts/kept"),
    Change("DELETE", "vhosts/new"),
    Change("DELETE", "connections/nobody"),
    Change("DELETE", "connections/username/guest", user="mona"),
    Change("DELETE", "connections/username/guest", user="mary"),
]

UPSTREAM = "parameters/federation-upstream/%2F/u"
SHOVEL = "parameters/shovel/%2F/s"
SHOVELLED = {"src-uri": "amqp://localhost:1", "src-queue": "a", "dest-uri": "amqp://localhost:1", "dest-queue": "b"}

PARAMETERS = [
    *(
        Change("PUT", UPSTREAM, {"value": {"uri": "amqp://localhost", **each}})
        for each in (
            {},
            {"uri": ["amqp://localhost", "amqps://other"], "expires": 100, "max-hops": 1, "ack-mode": "on-confirm"},
            {"uri": "nope"},
            {"uri": ["http://x"]},
            {"uri": 7},
            {"expires": "a", "trust-user-id": 7, "queue": 7},
            {"ack-mode": "a", "exchange": 1},
            {"ack-mode": 7, "resource-cleanup-mode": "x", "channel-use-mode": "x"},
            {"what": "a", "that": [1, True, None]},
        )
    ),
    Change("PUT", UPSTREAM, {"value": {}}),
    Change("PUT", UPSTREAM, {"value": [1]}),
    Change("PUT", UPSTREAM, {"other": {}}),
    Change("GET", UPSTREAM),
    Change("PUT", "parameters/federation-upstream-set/%2F/set", {"value": [{"upstream": "u"}]}),
    Change("PUT", "parameters/federation-upstream-set/%2F/set", {"value": [{"upstrea": "u"}]}),
    Change("PUT", "parameters/federation-upstream-set/%2F/set", {"value": []}),
    Change("PUT", "parameters/nope/%2F/x", {"value": {}}),
    Change("PUT", "parameters/policy/%2F/x", {"value": {}}),
    Change("PUT", "parameters/operator_policy/%2F/x", {"value": {"pattern": "x", "definition": {"max-length": 3}}}),
    Change("PUT", "parameters/operator_policy/%2F/x", {"value": POLICY}, "paul"),
    Change("DELETE", "parameters/operator_policy/%2F/x", user="paul"),
    Change("PUT", "parameters/vhost-limits/%2F/limits", {"value": {"max-queues": 300}}, "paul"),
    Change("DELETE", "parameters/vhost-limits/%2F/limits", user="paul"),
    Change("PUT", "parameters/vhost-limits/a%2Fb/limits", {"value": {"max-queues": 300}}),
    Change("PUT", "parameters/vhost-limits/a%2Fb/limits", {"value": {"max-x": 300}}),
    Change("GET", "vhost-limits/a%2Fb"),
    Change("DELETE", "parameters/vhost-limits/a%2Fb/limits"),
    Change("DELETE", "parameters/vhost-limits/a%2Fb/limits"),
    *(
        Change("PUT", SHOVEL, {"value": each})
        for each in (
            {},
            {"src-uri": "amqp://", "src-queue": "q"},
            {**SHOVELLED, "src-exchange": "x"},
            {**SHOVELLED, "dest-exchange": "x"},
            {**SHOVELLED, "src-uri": "nope"},
            {**SHOVELLED, "ack-mode": "nope", "src-delete-after": "nope", "what": 3},
            {**SHOVELLED, "src-delete-after": -3},
            {**SHOVELLED, "src-uri": 7, "dest-uri": 7},
            {"src-protocol": "amqp10", "dest-protocol": "amqp10"},
            SHOVELLED,
            {**SHOVELLED, "ack-mode": "on-publish", "src-delete-after": "queue-length", "reconnect-delay": 3},
        )
    ),
    Change("GET", SHOVEL),
    Change("PUT", SHOVEL, {"value": SHOVELLED}, "mona"),
    Change("PUT", SHOVEL, {"value": SHOVELLED}, "mary"),
    Change("PUT", "parameters/shovel/nope/s", {"value": SHOVELLED}),
    Change("GET", "shovels/vhost/%2F/s"),
    Change("GET", "shovels/vhost/%2F/s", user="paul"),
    Change("DELETE", "shovels/vhost/%2F/s/restart", user="mary"),
    Change("DELETE", "shovels/vhost/%2F/s/restart"),
    Change("DELETE", "shovels/vhost/%2F/nope/restart"),
    Change("DELETE", "shovels/vhost/%2F/s", user="mona"),
    Change("DELETE", "shovels/vhost/%2F/s"),
    Change("DELETE", "shovels/vhost/%2F/s"),
    Change("GET", "federation-links/%2F"),
    *[
        Change("GET", path, user=user)
        for path in ("federation-links", "federation-links/%2F")
        for user in ("mona", "paul")
    ],
    Change("PUT", "permissions/%2F/mona", {"configure": "", "write": "", "read": ""}),
    Change("GET", "federation-links", user="mona"),
    Change("DELETE", "permissions/%2F/mona"),
    Change("DELETE", "federation-links/vhost/%2F/nope/nope/restart"),
    Change("DELETE", UPSTREAM, user="mary"),
    Change("DELETE", UPSTREAM, user="paul"),
    Change("DELETE", UPSTREAM),
    Change("DELETE", "parameters/federation-upstream-set/%2F/set"),
    Change("DELETE", "parameters/nope/%2F/nope"),
]

MAINTENANCE = [
    Change("POST", "vhosts/new/deletion/protection"),
    Change("GET", "vhosts/new"),
    Change("DELETE", "vhosts/new/deletion/protection", user="mona"),
    Change("DELETE", "vhosts/new/deletion/protection"),
    Change("GET", "vhosts/new"),
    Change("POST", "vhosts/nope/deletion/protection"),
    Change("DELETE", "vhosts/nope/deletion/protection"),
    Change("POST", "vhosts/%2F/start/nope"),
    Change("GET", "vhosts/%2F/start/nope"),
    Change("PUT", "feature-flags/nope/enable", {"name": "nope"}),
    Change("PUT", "feature-flags/virtual_host_metadata/enable", {"name": "virtual_host_metadata"}),
    Change("PUT", "feature-flags/virtual_host_metadata/enable", {"name": "virtual_host_metadata"}, "mona"),
    Change("GET", "feature-flags/nope/enable"),
    Change("POST", "queues/%2F/limited/actions", {"action": "sync"}),
    Change("POST", "queues/%2F/limited/actions", {"action": "nope"}),
    Change("POST", "queues/%2F/limited/actions", {}),
    Change("POST", "queues/%2F/nope/actions", {"action": "sync"}),
    Change("POST", "queues/%2F/limited/actions", {"action": "sync"}, "mary"),
    Change("POST", "rebalance/queues", {}),
    Change("POST", "rebalance/queues", {}, "mona"),
    Change("GET", "rebalance/queues"),
    Change("DELETE", "reset", user="mona"),
    Change("DELETE", "auth/attempts/nope"),
    Change("DELETE", "auth/attempts/nope", user="mona"),
    Change("DELETE", "auth/attempts/nope", user="mary"),
    Change("POST", "login", {"username": "guest", "password": "guest"}),
    Change("GET", "login"),
]

CHANGES = [*VHOSTS, *USERS, *QUEUES, *MESSAGES, *PARAMETERS, *MAINTENANCE, *QUORUM, *DELETIONS]
