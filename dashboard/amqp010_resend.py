"""One 0-10 transfer on a connection of its own, with the broker's accept, for `amqproxy replay` to send."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import MessageAccept, MessageTransfer
from amqproxy.amqp010.controls import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    SessionAttach,
    SessionAttached,
    SessionCommandPoint,
    SessionCompleted,
    SessionDetach,
    SessionDetached,
)
from amqproxy.amqp010.domains import AcceptMode, AcquireMode, CloseCode, DetachCode
from amqproxy.amqp010.fields import Array
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.properties import DeliveryProperties, Header
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.wire import Map
from amqproxy.control.message_patch import MessagePatch
from amqproxy.conversion.amqp010.command_view import changed_assembly, command_view
from amqproxy.conversion.inexpressible import Inexpressible
from amqproxy.dashboard.message_ring import Content
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.rules.context import Client, CommandContext
from amqproxy.taps.amqp010.transfers import TransferBase, TransferProperties

FRAME_MAX = 65_535
CHANNEL = 1

_SESSION = b"amqproxy: a message sent again"


def transfer_of(content: Content) -> Assembly | None:
    """Return a message of 0-10 as a client's transfer; `None` if it is of another protocol.

    The broker has to accept it, or to reject it if no queue takes it.
    """
    method, properties = content.method, content.properties
    if not isinstance(method, TransferBase):
        return None
    header = properties.header if isinstance(properties, TransferProperties) else Header()
    delivery = replace(
        header.delivery or DeliveryProperties(),
        routing_key=method.routing_key,
        exchange=None,
        redelivered=False,
        discard_unroutable=False,
    )
    transfer = MessageTransfer(method.exchange, AcceptMode.EXPLICIT, AcquireMode.PRE_ACQUIRED, sync=True)
    return Assembly(CHANNEL, transfer, header.replacing(delivery), content.body)


def edited_transfer(transfer: Assembly, patch: MessagePatch) -> Assembly:
    """Return the transfer with an operator's changes. `ValueError` if one is not possible."""
    before = command_view(CLIENT, transfer)
    assert before is not None
    after = patch.of(before, CommandContext(sender=CLIENT, command=before, client=Client()))
    try:
        return changed_assembly(CLIENT, transfer, before, after)
    except Inexpressible as error:
        raise ValueError(str(error)) from None


def amqp010_conversation(transfer: Assembly, virtual_host: str) -> Iterator[tuple[Peer, bytes]]:
    """Yield who sends what: the login, a session, the transfer with its accept, and the end."""
    first = SequenceSet([(0, 0)])

    def control(sender: Peer, method: Method, channel: int = 0) -> tuple[Peer, bytes]:
        return sender, encode_method(channel, method)

    yield CLIENT, HEADER
    yield SERVER, HEADER
    yield control(SERVER, ConnectionStart(Map({}), Array("str16", ["PLAIN"]), Array("str16", ["en_US"])))
    yield control(CLIENT, ConnectionStartOk(Map({"product": "amqproxy"}), "PLAIN", b"", "en_US"))
    yield control(SERVER, ConnectionTune(CHANNEL, FRAME_MAX, 0, 0))
    yield control(CLIENT, ConnectionTuneOk(CHANNEL, FRAME_MAX, 0))
    yield control(CLIENT, ConnectionOpen(virtual_host))
    yield control(SERVER, ConnectionOpenOk())
    yield control(CLIENT, SessionAttach(_SESSION), CHANNEL)
    yield control(SERVER, SessionAttached(_SESSION), CHANNEL)
    yield control(CLIENT, SessionCommandPoint(0, 0), CHANNEL)
    yield control(SERVER, SessionCommandPoint(0, 0), CHANNEL)
    yield CLIENT, transfer.encode(FRAME_MAX)
    yield control(SERVER, MessageAccept(first), CHANNEL)
    yield control(SERVER, SessionCompleted(first), CHANNEL)
    yield control(CLIENT, SessionDetach(_SESSION), CHANNEL)
    yield control(SERVER, SessionDetached(_SESSION, DetachCode.NORMAL), CHANNEL)
    yield control(CLIENT, ConnectionClose(CloseCode.NORMAL))
    yield control(SERVER, ConnectionCloseOk())
