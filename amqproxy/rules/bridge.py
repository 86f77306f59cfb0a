"""Rules that let clients of one RabbitMQ version use another: `bridge` in the `[upstream]` of the config.

They come after all rules of the configuration. A rule of the configuration with the name of one of them replaces it.
"""

from __future__ import annotations

import tomllib
from functools import cache
from typing import Literal

import msgspec

from amqproxy.rules.actions import AnyRule

Bridge = Literal["rabbitmq-4"]
"""Brokers to which there is a bridge."""

BRIDGES: dict[Bridge, str] = {
    "rabbitmq-4": """
[[rules]]
name = "bridge: frames of less than 8192 bytes"
action = "rewrite"
match.method = "connection.tune-ok"
tune.least_frame_max = 8192

[[rules]]
name = "bridge: transient queue of one connection"
action = "rewrite"
match.method = "queue.declare"
when = '!fields.passive && !fields.durable && !fields.exclusive && fields.auto_delete && queue == ""'
fields.set = {exclusive = true}

[[rules]]
name = "bridge: transient queue"
action = "rewrite"
match.method = "queue.declare"
when = "!fields.passive && !fields.durable && !fields.exclusive"
fields.set = {durable = true}
arguments.default = {x-queue-type = "classic", x-expires = 86_400_000}

[[rules]]
name = "bridge: version 1 of classic queues"
action = "rewrite"
match.method = "queue.declare"
when = '"x-queue-version" in arguments && arguments["x-queue-version"] == 1'
arguments.remove = ["x-queue-version"]

[[rules]]
name = "bridge: master locator"
action = "rewrite"
match.method = "queue.declare"
arguments.remove = ["x-queue-master-locator"]

[[rules]]
name = "bridge: prefetch of a channel, log"
action = "log"
match.method = "basic.qos"
when = "fields.global"
level = "warning"
text = "prefetch of {fields.prefetch_count} for a channel applies to each of its consumers on RabbitMQ 4.3"

[[rules]]
name = "bridge: prefetch of a channel"
action = "rewrite"
match.method = "basic.qos"
when = "fields.global"
fields.set = {global = false}

[[rules]]
name = "bridge: messages above 16 MiB"
action = "limit"
of = "message_size"
most = 16_777_216
"""
}
"""The rules of each bridge, in TOML. What RabbitMQ 4.3 takes unchanged, such as x-queue-mode, is left as it is: a queue
from imported definitions may have it.
"""


@cache
def bridge_rules(bridge: Bridge) -> tuple[AnyRule, ...]:
    """Return the rules of a bridge, in order."""
    return tuple(msgspec.convert(tomllib.loads(BRIDGES[bridge])["rules"], list[AnyRule]))
