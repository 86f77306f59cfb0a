"""0-9-1 as a dialect of comparisons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import HEARTBEAT, METHOD, Frame
from amqproxy.amqp091.methods import BasicDeliver, BasicGetOk, Method
from amqproxy.amqp091.protocol_header import NAME
from amqproxy.amqp091.transitions import REPLIES
from amqproxy.comparison.made_up_names import BrokerNames, ConsumerNames

_REQUESTS = frozenset(REPLIES)


class Amqp091ComparisonDialect:
    """The dialect of 0-9-1 comparisons."""

    name = NAME
    frame = Frame
    method = Method

    def is_heartbeat(self, frame: Frame) -> bool:
        return frame.kind == HEARTBEAT

    def method_of(self, frame: Frame) -> Method | None:
        if frame.kind != METHOD:
            return None
        try:
            method: Method = frame.method
        except ProtocolError:
            return None
        return method

    def is_request(self, method: Method) -> bool:
        return method.name in _REQUESTS

    def shows_client(self, frame: Frame) -> bool:
        return frame.kind == METHOD and not frame.channel

    def learn_names(
        self, method: Method, channel: int, names: BrokerNames, consumers_of: Callable[[int], ConsumerNames]
    ) -> None:
        pass  # the trace reports the broker's replies, which contain its generated names

    def normalise(self, method: Method, fields: dict[str, Any], consumers: ConsumerNames) -> None:
        tag = fields.get("consumer_tag")
        if isinstance(tag, str):
            fields["consumer_tag"] = consumers.find(tag)
        if isinstance(method, BasicGetOk):
            del fields["message_count"]
        if isinstance(method, BasicDeliver):
            del fields["consumer_tag"]  # each consumer's deliveries are compared by themselves
