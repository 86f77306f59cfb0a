"""Commands of both protocols in terms of 0-9-1, in which rules and tests are written."""

from __future__ import annotations

from typing import NamedTuple

from amqproxy.amqp010.methods import Method as Amqp010Method
from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.properties import NO_PROPERTIES, Properties
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.conversion.amqp010.message_views import properties_view, transfer_view
from amqproxy.conversion.amqp010.method_views import method_view
from amqproxy.dashboard.message_ring import Content
from amqproxy.taps.amqp010.transfers import TransferBase, TransferDelivery, TransferProperties


class EquivalentCommand(NamedTuple):
    """A 0-9-1 method, and the properties of its message."""

    method: Method
    properties: Properties = NO_PROPERTIES


def equivalent_command(content: Content) -> EquivalentCommand | None:
    """Return the command as rules see it, `None` if rules never see it. A returned message is its publish."""
    method, properties = content.method, content.properties
    if isinstance(method, TransferBase):
        header = properties.header if isinstance(properties, TransferProperties) else None
        sender, number = CLIENT, 0
        if isinstance(method, TransferDelivery):
            sender, number = content.sender, method.delivery_tag or 0
        return EquivalentCommand(transfer_view(sender, method.transfer, header, number), properties_view(header))
    if isinstance(method, Amqp010Method):
        view = method_view(content.sender, method)
        return None if view is None else EquivalentCommand(view)
    assert isinstance(properties, Properties)  # a 0-9-1 command has 0-9-1 properties
    return EquivalentCommand(method, properties)
