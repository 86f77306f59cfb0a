"""Arguments of methods of either protocol, in JSON form."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp010.methods import Method as Amqp010Method
from amqproxy.taps import record
from amqproxy.taps.amqp010 import record as amqp010_record
from amqproxy.taps.amqp010.transfers import TransferBase
from amqproxy.taps.trace.events import CommandMethod


def method_arguments(method: CommandMethod) -> dict[str, Any]:
    """Return a method's fields under the names of its specification, in JSON form, with secrets masked."""
    if isinstance(method, TransferBase):
        method = method.transfer
    if isinstance(method, Amqp010Method):
        return amqp010_record.arguments(method)
    return record.arguments(method)
