"""Arguments of methods of both protocols."""

from amqproxy.amqp010.commands import MessageTransfer, QueueDelete
from amqproxy.amqp010.controls import ConnectionStartOk as Amqp010StartOk
from amqproxy.amqp010.properties import Header
from amqproxy.amqp091.methods import ConnectionStartOk, QueuePurge
from amqproxy.taps.amqp010.transfers import TransferPublish
from amqproxy.taps.method_arguments import method_arguments
from amqproxy.taps.record import MASK


def test_each_has_the_names_of_its_specification() -> None:
    assert method_arguments(QueuePurge(queue="q"))["queue"] == "q"
    assert method_arguments(QueueDelete(queue="q")) == {"queue": "q", "if_unused": False, "if_empty": False}


def test_a_message_has_those_of_its_transfer() -> None:
    transfer = MessageTransfer(destination="x", accept_mode=1, acquire_mode=0)
    assert method_arguments(TransferPublish.of(transfer, Header())) == {
        "destination": "x",
        "accept_mode": 1,
        "acquire_mode": 0,
    }


def test_secrets_are_masked() -> None:
    for method in (ConnectionStartOk(response=b"secret"), Amqp010StartOk(response=b"secret")):
        assert method_arguments(method)["response"] == MASK
