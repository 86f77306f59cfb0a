"""Commands of 0-10 as those of 0-9-1, for rules and tests."""

from __future__ import annotations

from amqproxy.amqp010.commands import ExecutionSync, MessageTransfer, QueueDeclare
from amqproxy.amqp010.properties import DeliveryProperties, Header, MessageProperties
from amqproxy.amqp091 import methods
from amqproxy.amqp091.properties import Properties
from amqproxy.dashboard.equivalent_command import EquivalentCommand, equivalent_command
from amqproxy.dashboard.message_ring import Content
from amqproxy.peer import CLIENT, SERVER
from amqproxy.taps.amqp010.transfers import TransferDelivery, TransferProperties, TransferPublish, TransferReturn

HEADER = Header((DeliveryProperties(routing_key="k"), MessageProperties(content_type="text/plain")))
PUBLISH = TransferPublish.of(MessageTransfer("orders"), HEADER)


def test_a_transfer_is_a_publish_or_a_delivery() -> None:
    properties = TransferProperties(HEADER)
    sent = equivalent_command(Content(CLIENT, PUBLISH, properties))
    publish = methods.BasicPublish(exchange="orders", routing_key="k", mandatory=True)
    assert sent == EquivalentCommand(publish, Properties(content_type="text/plain"))
    delivery = TransferDelivery.of(MessageTransfer("tag"), HEADER, 7)
    delivered = equivalent_command(Content(SERVER, delivery, properties))
    assert delivered is not None
    assert delivered.method == methods.BasicDeliver("tag", 7, False, "", "k")
    assert equivalent_command(Content(SERVER, TransferReturn.of(PUBLISH, 1, ""), properties)) == sent


def test_a_request_is_what_rules_see_of_it() -> None:
    declared = equivalent_command(Content(CLIENT, QueueDeclare("q")))
    assert declared is not None
    assert isinstance(declared.method, methods.QueueDeclare)
    assert equivalent_command(Content(CLIENT, ExecutionSync())) is None


def test_what_is_of_0_9_1_is_itself() -> None:
    method = methods.QueueDeclare(queue="q")
    assert equivalent_command(Content(CLIENT, method)) == EquivalentCommand(method)
