"""The broker's only node: resources, limits and alarms."""

from __future__ import annotations

import os
import ssl

from amqproxy.management.call import Call, Entry
from amqproxy.management.failure import not_found
from amqproxy.management.resources.overview import context, exchange_types, runtime

MECHANISMS = {
    "PLAIN": "SASL PLAIN authentication mechanism",
    "AMQPLAIN": "QPid AMQPLAIN mechanism",
    "EXTERNAL": "SASL EXTERNAL authentication mechanism",
    "ANONYMOUS": "SASL ANONYMOUS authentication mechanism",
}


async def nodes(call: Call) -> list[Entry]:
    return [node_row(call)]


async def node(call: Call) -> Entry:
    if call.values["node"] != call.facts.node:
        raise not_found()
    return node_row(call)


def node_row(call: Call) -> Entry:
    """Return the node's row; keys of Erlang's runtime have this process's values where there are any."""
    facts = call.facts
    alarms = facts["alarms"]
    row: Entry = {
        **call.figures.churn(facts["churn"]),
        "name": facts.node,
        "type": "disc",
        "running": True,
        "partitions": [],
        "os_pid": str(facts["pid"]),
        "uptime": int(facts["uptime"] * 1000),
        "processors": os.cpu_count(),
        "run_queue": 0,
        "fd_total": facts["files_limit"],
        "fd_used": facts["files"],
        "sockets_total": facts["files_limit"] if not facts.is_4 else 0,
        "sockets_used": facts["connections"],
        "proc_total": 1_048_576,
        "proc_used": facts["connections"],
        "mem_used": facts["memory"] or 0,
        "mem_limit": facts["memory_limit"] or 0,
        "mem_alarm": "memory" in alarms,
        "mem_calculation_strategy": "rss",
        "disk_free": facts["disk_free"] or 0,
        "disk_free_limit": facts["disk_free_limit"] or 0,
        "disk_free_alarm": "disk" in alarms,
        "rates_mode": "basic",
        "exchange_types": exchange_types(facts),
        "auth_mechanisms": [
            {"name": each, "description": MECHANISMS[each], "enabled": True} for each in facts["mechanisms"]
        ],
        "applications": [],
        "contexts": [{name: value for name, value in context(call).items() if name != "ssl_opts"}],
        "log_files": [],
        "db_dir": facts["directory"] or "",
        "config_files": [],
        "net_ticktime": 60,
        "enabled_plugins": ["rabbitmq_management"],
        "cluster_links": [],
    }
    if facts.is_4:
        row |= {
            "being_drained": False,
            "rabbitmq_version": facts["version"],
            "crypto_lib_version": ssl.OPENSSL_VERSION,
            **runtime(),
        }
    return row
