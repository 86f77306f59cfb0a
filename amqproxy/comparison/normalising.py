"""Commands without what differs from run to run although the same happened: tags, and names that the broker made up.

A name that the broker made up is written as `<queue:1.2>` where it is the second that it made up on channel 1, a
consumer tag as `<consumer:1>` where it is the first consumer of its channel, whichever side chose it. A name that looks
as if a broker had made it up, for another connection, is `<queue>`. Channels have no order. So two runs, or a recording
and its replay, can be compared by value.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from amqproxy.amqp010.commands import QueueDeclare
from amqproxy.amqp010.methods import Method as Amqp010Method
from amqproxy.amqp091.methods import BasicDeliver, BasicGetOk
from amqproxy.taps.amqp010.transfers import TransferBase, TransferDelivery
from amqproxy.taps.method_arguments import method_arguments
from amqproxy.taps.record import json_value
from amqproxy.taps.trace.events import CommandMethod

MAX_NAMES = 4096
"""Names that the broker made up for one connection, and consumers of one channel, that are numbered: the first ones."""

TAGS = frozenset(("delivery_tag", "command_id", "commands", "transfers"))
"""Arguments that are left out: what they refer to shows in what became of the message, or of the command."""

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_MADE_UP = re.compile(
    r"amq\.gen-[\w.+/=-]+|amq\.ctag-[\w.+/=-]+|amq\.rabbitmq\.reply-to\.[\w.+/=-]+"
    rf"|TempQueue{_UUID}|tmp_{_UUID}"
)
"""Names as brokers make them up: RabbitMQ's, and those of others that follow it; and as Qpid's JMS client does."""

_SIGNS = ("amq.", "TempQueue", "tmp_")
"""One of these is in each such name."""

_HAS_UUID = re.compile(_UUID, re.IGNORECASE)


def is_generated(declare: QueueDeclare) -> bool:
    """Has the client made up the name of its queue? In 0-10 it does what for 0-9-1 the broker does."""
    return declare.exclusive and _HAS_UUID.search(declare.queue or "") is not None


_NUMBERS_OF_PROCESSES = ("qpid.client_pid", "qpid.client_ppid")
_NUMBERS_OF_THE_RUN = re.compile(r"(?<=unknown delivery tag )\d+|<[0-9.]+>")
"""Tags, and Erlang's names of processes, in reply texts."""


def without_numbers(reply_text: str) -> str:
    """A reply text without the numbers in it that each run has its own of."""
    return _NUMBERS_OF_THE_RUN.sub("…", reply_text)


class BrokerNames:
    """The names that the broker has made up for one connection, and what stands for them."""

    __slots__ = ("_by_name", "_counts")

    def __init__(self) -> None:
        self._by_name: dict[str, str] = {}
        self._counts: Counter[int] = Counter()

    def learn_queue(self, name: str, channel: int) -> None:
        """The broker has named a queue for which the client gave no name on this channel."""
        if name not in self._by_name and len(self._by_name) < MAX_NAMES:
            self._counts[channel] += 1
            self._by_name[name] = f"<queue:{channel}.{self._counts[channel]}>"

    def text(self, text: str) -> str:
        """A name, or a text with names in it such as a reply text, with what stands for those."""
        found = self._by_name.get(text)
        if found is not None:
            return found
        return _MADE_UP.sub(self._stand_in, text) if any(sign in text for sign in _SIGNS) else text

    def value(self, value: Any) -> Any:
        """The same for all the texts in a value as JSON has it, but not for names of fields."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {name: self.value(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(each) for each in value]
        return value

    def _stand_in(self, match: re.Match[str]) -> str:
        name = match.group()
        found = self._by_name.get(name)
        if found is not None:
            return found
        return f"<{'consumer' if 'ctag' in name else 'reply-to' if 'reply-to' in name else 'queue'}>"


class ConsumerNames:
    """The consumers of one channel in the order in which they began, and what stands for their tags."""

    __slots__ = ("_by_tag", "_count")

    def __init__(self) -> None:
        self._by_tag: dict[str, str] = {}
        self._count = 0

    def begin(self, tag: str) -> str:
        """A consumer begins."""
        if self._count < MAX_NAMES:
            self._count += 1
            self._by_tag[tag] = f"<consumer:{self._count}>"
        else:
            self._by_tag.pop(tag, None)
        return self.find(tag)

    def find(self, tag: str) -> str:
        """What stands for a consumer tag."""
        return self._by_tag.get(tag, "<consumer>")


def normalised(method: CommandMethod, names: BrokerNames, consumers: ConsumerNames) -> dict[str, Any]:
    """A method's fields as JSON can hold them, without tags and made-up names; secrets are masked."""
    found = {name: value for name, value in method_arguments(method).items() if name not in TAGS}
    if isinstance(method, TransferBase):
        found.pop("destination", None)  # the exchange, or the consumer, whose deliveries are compared by themselves
        found |= {"exchange": json_value(method.exchange), "routing_key": json_value(method.routing_key)}
        if isinstance(method, TransferDelivery):
            found["redelivered"] = method.redelivered
    elif isinstance(method, Amqp010Method):
        destination = found.get("destination")
        if isinstance(destination, str):
            found["destination"] = consumers.find(destination)
    else:
        tag = found.get("consumer_tag")
        if isinstance(tag, str):
            found["consumer_tag"] = consumers.find(tag)
        if isinstance(method, BasicGetOk):
            del found["message_count"]
        if isinstance(method, BasicDeliver):
            del found["consumer_tag"]  # each consumer's deliveries are compared by themselves
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
