"""Commands of the proxy: replies to the sender of a message that is not forwarded, and insertions of rules."""

from __future__ import annotations

from msgspec.structs import replace

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.command_ids import id_of
from amqproxy.amqp010.commands import (
    MessageAccept,
    MessageCancel,
    MessageReject,
    MessageRelease,
    MessageTransfer,
)
from amqproxy.amqp010.domains import AcceptMode, AcquireMode, RejectCode
from amqproxy.amqp010.methods import Command as Command010
from amqproxy.amqp010.properties import Header
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.session import Session
from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicCancel, BasicDeliver, BasicPublish
from amqproxy.conversion.amqp010.message_properties import plain_structs
from amqproxy.conversion.inexpressible import Inexpressible
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.rules.verdict import Answer, Insertion, Verdict


def answer_to(sender: Peer, transfer: MessageTransfer, position: int, verdict: Verdict) -> Command010 | None:
    """Return the reply to the sender of a transfer that is not forwarded; `None` if there is none.

    A message that need not be accepted has no reply.
    """
    if transfer.accept_mode == AcceptMode.NONE:
        return None
    this = SequenceSet([(id_of(position), id_of(position))])
    match verdict.answer:
        case Answer.ACK:
            return MessageAccept(this)
        case Answer.NACK | Answer.REJECT:
            return MessageReject(this, RejectCode.UNSPECIFIED, "refused by a rule of the proxy")
        case Answer.RETURN:
            return MessageReject(this, RejectCode.UNROUTABLE, verdict.returned[1])
        case Answer.REQUEUE:
            return MessageRelease(this) if sender is SERVER else None
        case _:
            return None


def inserted(insertion: Insertion, session: Session | None) -> Assembly:
    """Return the command that a rule inserts into a session; raises `Inexpressible` if 0-10 has none."""
    command, method, to = insertion.command, insertion.command.method, insertion.to
    match method:
        case BasicPublish() if to is SERVER:
            transfer = MessageTransfer(method.exchange, AcceptMode.NONE, AcquireMode.PRE_ACQUIRED)
            return Assembly(command.channel, transfer, _header(command, method.exchange, method), command.body)
        case BasicDeliver() if to is CLIENT:
            subscription = None if session is None else session.subscriptions.get(method.consumer_tag)
            if subscription is None:
                raise Inexpressible("a delivery without a subscription")
            transfer = MessageTransfer(method.consumer_tag, *subscription.current.modes)
            return Assembly(command.channel, transfer, _header(command, method.exchange, method), command.body)
        case BasicCancel() if to is SERVER:
            return Assembly(command.channel, MessageCancel(method.consumer_tag))
        case _:
            raise Inexpressible(f"{method.name} to the {to}, which AMQP 0-10 does not have")


def _header(command: Command, exchange: str, method: BasicPublish | BasicDeliver) -> Header:
    delivery, message = plain_structs(command.properties)
    delivery = replace(delivery, exchange=exchange, routing_key=method.routing_key)
    if isinstance(method, BasicDeliver):
        delivery = replace(delivery, redelivered=method.redelivered)
    else:
        delivery = replace(delivery, discard_unroutable=not method.mandatory)
    return Header((delivery, replace(message, content_length=len(command.body))))
