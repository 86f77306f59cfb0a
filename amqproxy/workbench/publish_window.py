"""Publishes in flight: what confirms and returns say about each of them."""

from __future__ import annotations

from typing import Any

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicAck, BasicNack
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Field, Table
from amqproxy.moving.message_forwarder import MoveFailed
from amqproxy.moving.unsettled_messages import UnsettledMessages

REFUSED = "the target refused it (basic.nack): is the queue full?"

RETURNED = "the target returned it: "
"""Beginning of the outcome of a message that no queue takes."""

AMBIGUOUS = "the target returned it, or another message that looks like it: it may be there, too"

UNKNOWN_RETURN = (
    "the target returned a message that equals none of those sent: does a proxy change them? With --limit 1 there is "
    "no doubt which one is meant"
)


class Publication(msgspec.Struct, frozen=True):
    """A message to publish."""

    exchange: str
    routing_key: str
    properties: Properties
    body: bytes


class PublishWindow:
    """Publishes without a confirm, by their place in the batch, whose `outcomes` it fills in.

    RabbitMQ sends a return before the confirm of the same publish, and names no number in it: it means one of the
    unconfirmed publishes. `is_ambiguous` is whether a return could have meant several ones that differ.
    """

    def __init__(self, unsettled: UnsettledMessages, outcomes: list[str | None]) -> None:
        self.is_ambiguous = False
        self._outcomes = outcomes
        self._unsettled = unsettled
        self._waiting: dict[int, Publication] = {}
        self._has_returns = False
        self._confirmed_after_return: list[int] = []

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def places(self) -> list[int]:
        """Places of the publishes without a confirm."""
        return list(self._waiting)

    def add(self, place: int, publication: Publication, size: int) -> None:
        """Note the next publish of the channel."""
        self._unsettled.add(place, size)
        self._waiting[place] = publication

    def settle(self, method: BasicAck | BasicNack) -> None:
        """Note a confirm."""
        for place in self._unsettled.settle(method.delivery_tag, multiple=method.multiple):
            del self._waiting[place]
            if self._outcomes[place] is None:
                self._outcomes[place] = REFUSED if isinstance(method, BasicNack) else ""
                if self._has_returns:
                    self._confirmed_after_return.append(place)

    def note_return(self, returned: Command) -> None:
        """Note which publish a return means; raise `MoveFailed` if it can mean none of them.

        Then earlier returns may have been taken for those of other messages as well: what was confirmed after them is
        unknown again.
        """
        self._has_returns = True
        found = self._meant_by(returned)
        if not found:
            for place in self._confirmed_after_return:
                self._outcomes[place] = None
            raise MoveFailed(UNKNOWN_RETURN)
        first = _whole(self._waiting[found[0]])
        if any(self._outcomes[place] == AMBIGUOUS or _whole(self._waiting[place]) != first for place in found):
            self.is_ambiguous = True
            for place in found:
                self._outcomes[place] = AMBIGUOUS
        else:  # of equal messages it does not matter which one is meant
            method = returned.method
            self._outcomes[found[0]] = f"{RETURNED}{method.reply_code} {method.reply_text}"

    def _meant_by(self, returned: Command) -> list[int]:
        """Return the places that a return may mean: those of equal messages, or of those to which a broker added."""
        possible = {
            place: publication
            for place, publication in self._waiting.items()
            if self._outcomes[place] is None or self._outcomes[place] == AMBIGUOUS
        }
        if len(self._waiting) == 1:
            return list(possible)
        method, properties, body = returned.method, returned.properties, returned.body
        possible = {
            place: each
            for place, each in possible.items()
            if (each.exchange, each.routing_key, each.body) == (method.exchange, method.routing_key, body)
        }
        # RabbitMQ takes BCC out before it routes a message, and can be told to add a timestamp.
        headers = _headers(properties, "BCC")
        plain = msgspec.structs.replace(properties, headers=None)
        equal = [
            place
            for place, each in possible.items()
            if msgspec.structs.replace(each.properties, headers=None) == plain
            and _headers(each.properties, "BCC") == headers
        ]
        return equal or [
            place
            for place, each in possible.items()
            if _is_part(msgspec.structs.replace(each.properties, headers=None).present(), plain.present())
            and set(_headers(each.properties, "BCC")) <= set(headers)
        ]


def _headers(properties: Properties, *left_out: str) -> list[bytes]:
    """Return the encoded headers, sorted: brokers may change their order."""
    fields: tuple[Field, ...] = () if properties.headers is None else properties.headers.fields
    return sorted(Table([field]).octets for field in fields if field.name not in left_out)


def _whole(publication: Publication) -> tuple[Any, ...]:
    """Return what makes publications equal."""
    properties = publication.properties
    plain = msgspec.structs.replace(properties, headers=None)
    return publication.exchange, publication.routing_key, plain, _headers(properties), publication.body


def _is_part(some: dict[str, Any], others: dict[str, Any]) -> bool:
    return all(name in others and others[name] == value for name, value in some.items())
