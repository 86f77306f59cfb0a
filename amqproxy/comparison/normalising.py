"""Commands without the parts that differ in every run: tags, and names that the broker generated.

A name that the broker generated is written as `<queue:1.2>` if it is the second generated one on channel 1, a consumer
tag as `<consumer:1>` if it is the first consumer of its channel, whichever side chose it. A name that looks as if a
broker had generated it, for another connection, is `<queue>`. Channels have no order. So two runs, or a recording and
its replay, can be compared by value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from amqproxy.comparison.dialects import dialect_of_method
from amqproxy.comparison.made_up_names import BrokerNames, ConsumerNames
from amqproxy.taps.dialects import method_arguments
from amqproxy.taps.trace.events import CommandMethod

TAGS = frozenset(("delivery_tag", "command_id", "commands", "transfers"))
"""Arguments that are left out: the outcome of the message or command shows what they refer to."""

_NUMBERS_OF_PROCESSES = ("qpid.client_pid", "qpid.client_ppid")
_NUMBERS_OF_THE_RUN = re.compile(r"(?<=unknown delivery tag )\d+|<[0-9.]+>")
"""Delivery tags and Erlang process ids in reply texts."""


def without_numbers(reply_text: str) -> str:
    """Return a reply text without the numbers that differ in every run."""
    return _NUMBERS_OF_THE_RUN.sub("…", reply_text)


def normalised(method: CommandMethod, names: BrokerNames, consumers: ConsumerNames) -> dict[str, Any]:
    """Return a method's fields in JSON's types, without tags and generated names; secrets are masked."""
    found = {name: value for name, value in method_arguments(method).items() if name not in TAGS}
    dialect_of_method(method).normalise(method, found, consumers)
    result: dict[str, Any] = names.value(found)
    return result


def normalised_client(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return client properties without the client's process ids."""
    return {name: value for name, value in properties.items() if name not in _NUMBERS_OF_PROCESSES}


def normalised_properties(properties: Mapping[str, Any], names: BrokerNames) -> dict[str, Any]:
    """Return properties, in JSON's types, without generated names and the times of dead-lettering."""
    found: dict[str, Any] = names.value(properties)
    headers = found.get("headers")
    deaths = headers.get("x-death") if isinstance(headers, dict) else None
    if isinstance(deaths, list):
        for death in deaths:
            if isinstance(death, dict):
                death.pop("time", None)
    return found
