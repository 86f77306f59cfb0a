"""Keys of RabbitMQ's rows that this API leaves out, and those whose values are its own; the docs list them.

Keys are those of any row, or with a resource before a dot, of that resource's rows alone.
"""

from __future__ import annotations

from collections.abc import Mapping

_ERLANG = "Erlang's runtime"
_RATES = "these are not counted"
_STORE = "RabbitMQ's stores of messages and definitions"
_BYTES = "messages are counted, and the bytes of ready ones; not by where they are kept"

ABSENT_KEYS: Mapping[str, str] = {
    "idle_since": _RATES,
    "vhosts.recv_oct": _RATES,
    "vhosts.send_oct": _RATES,
    "recv_cnt": _RATES,
    "send_cnt": _RATES,
    "send_pend": _RATES,
    "acks_uncommitted": _RATES,
    "messages_uncommitted": _RATES,
    "messages_by_priority": _RATES,
    "message_bytes_dlx": _BYTES,
    "message_bytes_paged_out": _BYTES,
    "message_bytes_persistent": _BYTES,
    "message_bytes_ram": _BYTES,
    "message_bytes_unacknowledged": _BYTES,
    "messages_active_priorities": _BYTES,
    "messages_delayed": _BYTES,
    "messages_dlx": _BYTES,
    "messages_paged_out": _BYTES,
    "messages_persistent": _BYTES,
    "messages_ram": _BYTES,
    "messages_ready_ram": _BYTES,
    "messages_ready_returned": _BYTES,
    "messages_unacknowledged_ram": _BYTES,
    "head_message_timestamp": _BYTES,
    "first_timestamp": _BYTES,
    "readers": _BYTES,
    "publishers": _BYTES,
    "garbage_collection": _ERLANG,
    "reductions": _ERLANG,
    "nodes.context_switches": _ERLANG,
    "nodes.gc_bytes_reclaimed": _ERLANG,
    "nodes.gc_num": _ERLANG,
    "nodes.metrics_gc_queue_length": _ERLANG,
    "cowboy_opts": _ERLANG,
    "backing_queue_status": _STORE,
    "cached_segments": _STORE,
    "delayed_retry": "queues of this broker do not delay retries",
    "recoverable_slaves": "there are no mirrored queues",
    "open_files": _STORE,
    "pending_raft_commands": _STORE,
    "nodes.ra_open_file_metrics": _STORE,
    **{
        f"nodes.io_{each}": _STORE
        for each in (
            *("read_avg_time", "read_bytes", "read_count", "reopen_count", "seek_avg_time", "seek_count"),
            *("sync_avg_time", "sync_count", "write_avg_time", "write_bytes", "write_count"),
        )
    },
    **{
        f"nodes.{each}": _STORE
        for each in (
            *("mnesia_disk_tx_count", "mnesia_ram_tx_count", "msg_store_read_count", "msg_store_write_count"),
            *("queue_index_read_count", "queue_index_write_count"),
        )
    },
    "exchanges.user_who_performed_action": "who declared an exchange is not kept",
}
"""Keys that RabbitMQ has, with the reasons; keys that end in `_details`, which hold rates, are left out too."""

OWN_VALUES: Mapping[str, str] = {
    "disk_writes": "messages that were written to the directory of `--data`",
    "erlang_version": "there is no Erlang: always 0",
    "erlang_full_version": "the versions of amqproxy and of Python",
    "crypto_lib_version": "the OpenSSL that Python uses",
    "doc_url": "empty",
    "nodes.applications": "none",
    "nodes.config_files": "none",
    "nodes.enabled_plugins": "`rabbitmq_management`",
    "nodes.log_files": "none",
    "nodes.db_dir": "the directory of `--data`",
    "socket_opts": "none",
    "feature-flags.callbacks": "none",
    "nodes.memory": "all of it is `other_proc`: parts are not measured",
    "shovels.pending": "always 0: messages wait in the source while the destination is blocked",
    "shovels.reason": "RabbitMQ's, with the cause",
    "federation-links.status": "always `error`: upstreams are kept, and this broker does not federate",
}
"""Keys whose values are this broker's own."""

RABBITMQ_PATHS: Mapping[str, str] = {
    "aliveness-test/{vhost}": "GET",
    "all-configuration": "GET POST",
    "auth": "GET",
    "auth/attempts/{node}": "GET DELETE",
    "auth/attempts/{node}/source": "GET DELETE",
    "auth/hash_password/{password}": "GET",
    "bindings/{vhost}/e/{source}/{kind}/{destination}": "GET POST",
    "bindings/{vhost}/e/{source}/{kind}/{destination}/{properties}": "GET DELETE",
    "channels/{channel}": "GET",
    "cluster-name": "GET PUT",
    "config/effective": "GET",
    "connections/username/{user}": "GET DELETE",
    "connections/{connection}": "GET DELETE",
    "connections/{connection}/sessions": "GET",
    "connections/{connection}/channels": "GET",
    "definitions": "GET POST",
    "definitions/{vhost}": "GET POST",
    "deprecated-features/used": "GET",
    "exchanges/{vhost}/{name}": "GET PUT DELETE",
    "exchanges/{vhost}/{name}/publish": "POST",
    "feature-flags": "GET",
    "feature-flags/{name}/enable": "PUT",
    "federation-links": "GET",
    "global-parameters/{name}": "GET PUT DELETE",
    "healthchecks/node/{node}": "GET",
    "login": "POST",
    "nodes/{node}/memory": "GET",
    "nodes/{node}/memory/ets": "GET",
    "nodes/{node}/memory/ets/relative": "GET",
    "nodes/{node}/memory/relative": "GET",
    "operator-policies/{vhost}/{name}": "GET PUT DELETE",
    "parameters/{component}/{vhost}/{name}": "GET PUT DELETE",
    "permissions/{vhost}/{user}": "GET PUT DELETE",
    "policies/{vhost}/{name}": "GET PUT DELETE",
    "queues/quorum/replicas/on/{node}/grow": "POST",
    "queues/quorum/replicas/on/{node}/shrink": "DELETE",
    "queues/quorum/{vhost}/{name}/replicas/add": "POST",
    "queues/quorum/{vhost}/{name}/replicas/delete": "DELETE",
    "queues/quorum/{vhost}/{name}/status": "GET",
    "queues/{vhost}/{name}": "GET PUT DELETE",
    "queues/{vhost}/{name}/actions": "POST",
    "queues/{vhost}/{name}/contents": "DELETE",
    "queues/{vhost}/{name}/get": "POST",
    "rebalance/queues": "POST",
    "reset": "DELETE",
    "shovels": "GET",
    "stream/connections": "GET",
    "topic-permissions/{vhost}/{user}": "GET PUT DELETE",
    "topic-permissions/{vhost}/{user}/{exchange}": "GET PUT DELETE",
    "user-limits/{user}/{name}": "PUT DELETE",
    "users/bulk-delete": "POST",
    "users/{user}": "GET PUT DELETE",
    "users/{user}/queues": "GET",
    "vhost-limits/{vhost}/{name}": "PUT DELETE",
    "vhosts/{vhost}": "GET PUT DELETE",
    "vhosts/{vhost}/deletion/protection": "POST DELETE",
    "vhosts/{vhost}/start/{node}": "POST",
}
"""Paths of RabbitMQ that are absent here, or were once, with all their methods; the docs list what is absent."""
