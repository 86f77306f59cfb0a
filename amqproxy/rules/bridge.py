"""Rules that let clients of one RabbitMQ version use another: `bridge` in the `[upstream]` of the config.

They come after all rules of the configuration. A rule of the configuration with the name of one of them replaces it, as
do those that `readiness` writes.
"""

from __future__ import annotations

import tomllib
from functools import cache
from typing import Literal

import msgspec

from amqproxy.rabbitmq.incompatibility import INCOMPATIBILITIES
from amqproxy.rules.actions import AnyRule

Bridge = Literal["rabbitmq-4"]
"""Brokers to which there is a bridge."""

_MESSAGE_SIZE = """
[[rules]]
name = "rabbitmq4-message-size"
action = "limit"
of = "message_size"
most = 16_777_216
"""
"""Refusal in RabbitMQ 4's own words. `readiness` does not write this rule, since the client fails with it, too."""

BRIDGES: dict[Bridge, str] = {
    "rabbitmq-4": "\n".join([*[each.rule for each in INCOMPATIBILITIES.values()], _MESSAGE_SIZE]),
}
"""The rules of each bridge, in TOML. What RabbitMQ 4.3 takes unchanged, such as x-queue-mode, is left as it is: a queue
from imported definitions may have it.
"""


@cache
def bridge_rules(bridge: Bridge) -> tuple[AnyRule, ...]:
    """Return the rules of a bridge, in order."""
    return tuple(msgspec.convert(tomllib.loads(BRIDGES[bridge])["rules"], list[AnyRule]))
