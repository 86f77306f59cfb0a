"""Commands without what differs from run to run although the same happened: tags, and names that the broker made up.

A name that the broker made up is written as `<queue:1.2>` where it is the second that it made up on channel 1, a
consumer tag as `<consumer:1>` where it is the first consumer of its channel, whichever side chose it. A name that looks
as if a broker had made it up, for another connection, is `<queue>`. Channels have no order. So two runs, or a recording
and its replay, can be compared by value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from amqproxy.comparison.dialects import dialect_of_method
from amqproxy.comparison.made_up_names import BrokerNames, ConsumerNames
from amqproxy.taps.method_arguments import method_arguments
from amqproxy.taps.trace.events import CommandMethod

TAGS = frozenset(("delivery_tag", "command_id", "commands", "transfers"))
"""Arguments that are left out: what they refer to shows in what became of the message, or of the command."""

_NUMBERS_OF_PROCESSES = ("qpid.client_pid", "qpid.client_ppid")
_NUMBERS_OF_THE_RUN = re.compile(r"(?<=unknown delivery tag )\d+|<[0-9.]+>")
"""Tags, and Erlang's names of processes, in reply texts."""


def without_numbers(reply_text: str) -> str:
    """A reply text without the numbers in it that each run has its own of."""
    return _NUMBERS_OF_THE_RUN.sub("…", reply_text)


def normalised(method: CommandMethod, names: BrokerNames, consumers: ConsumerNames) -> dict[str, Any]:
    """A method's fields as JSON can hold them, without tags and made-up names; secrets are masked."""
    found = {name: value for name, value in method_arguments(method).items() if name not in TAGS}
    dialect_of_method(method).normalise(method, found, consumers)
    result: dict[str, Any] = names.value(found)
    return result


def normalised_client(properties: Mapping[str, Any]) -> dict[str, Any]:
    """What a client says of itself, without the numbers of its processes."""
    return {name: value for name, value in properties.items() if name not in _NUMBERS_OF_PROCESSES}


def normalised_properties(properties: Mapping[str, Any], names: BrokerNames) -> dict[str, Any]:
    """Properties as JSON has them, without made-up names, and without the times of dead-lettering."""
    found: dict[str, Any] = names.value(properties)
    headers = found.get("headers")
    deaths = headers.get("x-death") if isinstance(headers, dict) else None
    if isinstance(deaths, list):
        for death in deaths:
            if isinstance(death, dict):
                death.pop("time", None)
    return found
