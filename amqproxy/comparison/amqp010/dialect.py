"""0-10 as a dialect of comparisons."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from amqproxy.amqp010.commands import (
    ExecutionException,
    ExecutionResult,
    MessageAccept,
    MessageReject,
    MessageRelease,
    MessageSubscribe,
    MessageTransfer,
    QueueDeclare,
)
from amqproxy.amqp010.controls import ConnectionHeartbeat, SessionRequestTimeout
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import CONTROL, Frame
from amqproxy.amqp010.methods import Command, Method
from amqproxy.amqp010.protocol_header import NAME
from amqproxy.comparison.made_up_names import UUID, BrokerNames, ConsumerNames
from amqproxy.taps.amqp010.transfers import TransferBase, TransferDelivery
from amqproxy.taps.record import json_value

_NOT_REQUESTS = (
    MessageTransfer,
    MessageAccept,
    MessageReject,
    MessageRelease,
    ExecutionResult,
    ExecutionException,
)
"""Commands that carry or settle messages, or answer other commands."""

_HAS_UUID = re.compile(UUID, re.IGNORECASE)


class Amqp010ComparisonDialect:
    """The dialect of 0-10 comparisons."""

    name = NAME
    frame = Frame
    method = (Method, TransferBase)

    def is_heartbeat(self, frame: Frame) -> bool:
        return frame.index == ConnectionHeartbeat.index

    def method_of(self, frame: Frame) -> Method | None:
        if frame.index < 0 or not frame.is_whole_segment:
            return None
        try:
            method: Method = frame.method
        except ProtocolError:
            return None
        return method

    def is_request(self, method: Method) -> bool:
        if isinstance(method, Command):
            return not isinstance(method, _NOT_REQUESTS)
        return isinstance(method, SessionRequestTimeout)

    def shows_client(self, frame: Frame) -> bool:
        return frame.kind == CONTROL

    def learn_names(
        self, method: Method, channel: int, names: BrokerNames, consumers_of: Callable[[int], ConsumerNames]
    ) -> None:
        # The client chooses these names; the broker may use them before it completes the command.
        if isinstance(method, MessageSubscribe):
            consumers_of(channel).begin(method.destination or "")
        elif isinstance(method, QueueDeclare) and method.exclusive and _HAS_UUID.search(method.queue or ""):
            names.learn_queue(method.queue or "", channel)

    def normalise(self, method: Method | TransferBase, fields: dict[str, Any], consumers: ConsumerNames) -> None:
        if isinstance(method, TransferBase):
            fields.pop("destination", None)  # the exchange, or the consumer, which is compared by itself
            fields |= {"exchange": json_value(method.exchange), "routing_key": json_value(method.routing_key)}
            if isinstance(method, TransferDelivery):
                fields["redelivered"] = method.redelivered
            return
        destination = fields.get("destination")
        if isinstance(destination, str):
            fields["destination"] = consumers.find(destination)
