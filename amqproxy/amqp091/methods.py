"""Methods of AMQP 0-9-1 and of RabbitMQ's extensions, one small typed class each.

The annotations are the wire types; a method's codec is its layout, read from them once, at import. Reserved fields are
kept, so that a method encodes to the bytes it came from. Methods marked RabbitMQ's are not in the specification.

The file is one table, and stays whole: 69 methods of a few lines each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, TypeVar, get_type_hints

import msgspec

from amqproxy.amqp091.wire import Table, encode_fields

Bit = Annotated[bool, "b"]
Octet = Annotated[int, "o"]
Short = Annotated[int, "h"]
Long = Annotated[int, "l"]
LongLong = Annotated[int, "q"]
Name = Annotated[str, "s"]
ShortStr = Annotated[str, "u"]
LongStr = Annotated[bytes, "S"]
FieldTable = Annotated[Table, "F"]

EMPTY = Table()


"""`Name` must be UTF-8; a `ShortStr` may hold any bytes, see `wire` for their representation. RabbitMQ requires
UTF-8 in all methods without content; here only names of queues and exchanges must be UTF-8, so that nothing is
refused that it would accept.
"""


class Method(msgspec.Struct, frozen=True, gc=False):
    """Base class of methods (sections 2.2.4 and 4.2.4).

    `name` is the specification's ("basic.publish"), `index` a small number for tables of counters, `layout` the wire
    types of the fields as `wire.StructDecoder` takes them, `spoken` the names of the unreserved fields: the
    specification's, and the attribute's.
    """

    name: ClassVar[str]
    class_id: ClassVar[int]
    method_id: ClassVar[int]
    index: ClassVar[int]
    layout: ClassVar[bytes]
    spoken: ClassVar[tuple[tuple[str, str], ...]]
    carries_content: ClassVar[bool]
    secret: ClassVar[str] = ""
    """The field that is masked wherever the method is shown, recorded or read by rules."""

    def encode(self) -> bytes:
        """Return the payload of the method's frame: its two ids, then its arguments."""
        head = self.class_id.to_bytes(2) + self.method_id.to_bytes(2)
        return head + encode_fields(self.layout, [getattr(self, f) for f in self.__struct_fields__])

    def to_dict(self) -> dict[str, Any]:
        """Return the method's fields by the specification's names, without the reserved ones."""
        return {name: getattr(self, field) for name, field in self.spoken}


def spec_name(field: str) -> str:
    """Return the specification's name for a field that is renamed because of a Python keyword or a `Method`
    attribute.
    """
    return _SPEC_NAMES.get(field, field)


_SPEC_NAMES = {
    "failing_class_id": "class_id",
    "failing_method_id": "method_id",
    "global_": "global",
}

METHODS: dict[int, type[Method]] = {}
"""All methods by number: the class id times 65,536 plus the method id."""

BY_NAME: dict[str, type[Method]] = {}
BY_INDEX: list[type[Method]] = []


M = TypeVar("M", bound=Method)


def _method(name: str, class_id: int, method_id: int, *, content: bool = False) -> Callable[[type[M]], type[M]]:
    """Set a class's ids, and enter it in the tables above."""

    def enter(cls: type[M]) -> type[M]:
        hints = get_type_hints(cls, include_extras=True)
        cls.name, cls.class_id, cls.method_id = name, class_id, method_id
        cls.carries_content = content
        cls.layout = "".join(hints[f].__metadata__[0] for f in cls.__struct_fields__).encode()
        cls.spoken = tuple((spec_name(f), f) for f in cls.__struct_fields__ if not f.startswith("reserved_"))
        cls.index = len(BY_INDEX)
        METHODS[class_id << 16 | method_id] = BY_NAME[name] = cls
        BY_INDEX.append(cls)
        return cls

    return enter


# --- connection: section 1.4 -----------------------------------------------------------------


@_method("connection.start", 10, 10)
class ConnectionStart(Method, frozen=True):
    """The server's first method: its version, properties and login mechanisms."""

    version_major: Octet = 0
    version_minor: Octet = 9
    server_properties: FieldTable = EMPTY
    mechanisms: LongStr = b"PLAIN"
    locales: LongStr = b"en_US"


@_method("connection.start-ok", 10, 11)
class ConnectionStartOk(Method, frozen=True):
    """The client's mechanism, and its first response (a secret)."""

    secret: ClassVar[str] = "response"

    client_properties: FieldTable = EMPTY
    mechanism: ShortStr = "PLAIN"
    response: LongStr = b""
    locale: ShortStr = "en_US"


@_method("connection.secure", 10, 20)
class ConnectionSecure(Method, frozen=True):
    """A further challenge of the login mechanism."""

    challenge: LongStr = b""


@_method("connection.secure-ok", 10, 21)
class ConnectionSecureOk(Method, frozen=True):
    """The response to a challenge (a secret)."""

    secret: ClassVar[str] = "response"

    response: LongStr = b""


@_method("connection.tune", 10, 30)
class ConnectionTune(Method, frozen=True):
    """Limits proposed by the server; 0 is unlimited. `heartbeat` is in seconds."""

    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


@_method("connection.tune-ok", 10, 31)
class ConnectionTuneOk(Method, frozen=True):
    """The negotiated limits."""

    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


@_method("connection.open", 10, 40)
class ConnectionOpen(Method, frozen=True):
    """Open a virtual host."""

    virtual_host: ShortStr = "/"
    reserved_1: ShortStr = ""
    reserved_2: Bit = False


@_method("connection.open-ok", 10, 41)
class ConnectionOpenOk(Method, frozen=True):
    """The virtual host is open."""

    reserved_1: ShortStr = ""


@_method("connection.close", 10, 50)
class ConnectionClose(Method, frozen=True):
    """Close the connection, with the reason; the ids name the method at fault."""

    reply_code: Short = 200
    reply_text: ShortStr = ""
    failing_class_id: Short = 0
    failing_method_id: Short = 0


@_method("connection.close-ok", 10, 51)
class ConnectionCloseOk(Method, frozen=True):
    """The close is confirmed; the socket may be closed."""


@_method("connection.blocked", 10, 60)
class ConnectionBlocked(Method, frozen=True):
    """RabbitMQ's: the server is short of a resource and does not read publishes."""

    reason: ShortStr = ""


@_method("connection.unblocked", 10, 61)
class ConnectionUnblocked(Method, frozen=True):
    """RabbitMQ's: the server reads publishes again."""


@_method("connection.update-secret", 10, 70)
class ConnectionUpdateSecret(Method, frozen=True):
    """RabbitMQ's: a new credential for an open connection (a secret)."""

    secret: ClassVar[str] = "new_secret"

    new_secret: LongStr = b""
    reason: ShortStr = ""


@_method("connection.update-secret-ok", 10, 71)
class ConnectionUpdateSecretOk(Method, frozen=True):
    """RabbitMQ's: the new credential is accepted."""


# --- channel: section 1.5 --------------------------------------------------------------------


@_method("channel.open", 20, 10)
class ChannelOpen(Method, frozen=True):
    """Open the channel of the frame."""

    reserved_1: ShortStr = ""


@_method("channel.open-ok", 20, 11)
class ChannelOpenOk(Method, frozen=True):
    """The channel is open."""

    reserved_1: LongStr = b""


@_method("channel.flow", 20, 20)
class ChannelFlow(Method, frozen=True):
    """Stop or restart the content that the other side sends on the channel."""

    active: Bit = False


@_method("channel.flow-ok", 20, 21)
class ChannelFlowOk(Method, frozen=True):
    """The flow is stopped or restarted."""

    active: Bit = False


@_method("channel.close", 20, 40)
class ChannelClose(Method, frozen=True):
    """Close the channel, with the reason; the ids name the method at fault."""

    reply_code: Short = 200
    reply_text: ShortStr = ""
    failing_class_id: Short = 0
    failing_method_id: Short = 0


@_method("channel.close-ok", 20, 41)
class ChannelCloseOk(Method, frozen=True):
    """The close is confirmed; the channel number may be used again."""


# --- access: AMQP 0-8's, which RabbitMQ still answers ----------------------------------------


@_method("access.request", 30, 10)
class AccessRequest(Method, frozen=True):
    """Request an access ticket; RabbitMQ grants any request."""

    realm: ShortStr = ""
    exclusive: Bit = False
    passive: Bit = False
    active: Bit = False
    write: Bit = False
    read: Bit = False


@_method("access.request-ok", 30, 11)
class AccessRequestOk(Method, frozen=True):
    """The ticket, which is obsolete."""

    reserved_1: Short = 1


# --- exchange: section 1.6 -------------------------------------------------------------------


@_method("exchange.declare", 40, 10)
class ExchangeDeclare(Method, frozen=True):
    """Create an exchange, or check that it exists with these properties."""

    reserved_1: Short = 0
    exchange: Name = ""
    type: ShortStr = "direct"
    passive: Bit = False
    durable: Bit = False
    auto_delete: Bit = False
    internal: Bit = False
    no_wait: Bit = False
    arguments: FieldTable = EMPTY


@_method("exchange.declare-ok", 40, 11)
class ExchangeDeclareOk(Method, frozen=True):
    """The exchange exists."""


@_method("exchange.delete", 40, 20)
class ExchangeDelete(Method, frozen=True):
    """Delete an exchange."""

    reserved_1: Short = 0
    exchange: Name = ""
    if_unused: Bit = False
    no_wait: Bit = False


@_method("exchange.delete-ok", 40, 21)
class ExchangeDeleteOk(Method, frozen=True):
    """The exchange is deleted."""


@_method("exchange.bind", 40, 30)
class ExchangeBind(Method, frozen=True):
    """RabbitMQ's: bind an exchange to another one."""

    reserved_1: Short = 0
    destination: Name = ""
    source: Name = ""
    routing_key: ShortStr = ""
    no_wait: Bit = False
    arguments: FieldTable = EMPTY


@_method("exchange.bind-ok", 40, 31)
class ExchangeBindOk(Method, frozen=True):
    """RabbitMQ's: the binding exists."""


@_method("exchange.unbind", 40, 40)
class ExchangeUnbind(Method, frozen=True):
    """RabbitMQ's: remove a binding of exchange.bind."""

    reserved_1: Short = 0
    destination: Name = ""
    source: Name = ""
    routing_key: ShortStr = ""
    no_wait: Bit = False
    arguments: FieldTable = EMPTY


@_method("exchange.unbind-ok", 40, 51)
class ExchangeUnbindOk(Method, frozen=True):
    """RabbitMQ's: the binding is removed; its id really is 51."""


# --- queue: section 1.7 ----------------------------------------------------------------------


@_method("queue.declare", 50, 10)
class QueueDeclare(Method, frozen=True):
    """Create a queue, or check that it exists with these properties."""

    reserved_1: Short = 0
    queue: Name = ""
    passive: Bit = False
    durable: Bit = False
    exclusive: Bit = False
    auto_delete: Bit = False
    no_wait: Bit = False
    arguments: FieldTable = EMPTY


@_method("queue.declare-ok", 50, 11)
class QueueDeclareOk(Method, frozen=True):
    """The queue exists, with this number of ready messages and consumers."""

    queue: Name = ""
    message_count: Long = 0
    consumer_count: Long = 0


@_method("queue.bind", 50, 20)
class QueueBind(Method, frozen=True):
    """Bind a queue to an exchange."""

    reserved_1: Short = 0
    queue: Name = ""
    exchange: Name = ""
    routing_key: ShortStr = ""
    no_wait: Bit = False
    arguments: FieldTable = EMPTY


@_method("queue.bind-ok", 50, 21)
class QueueBindOk(Method, frozen=True):
    """The binding exists."""


@_method("queue.purge", 50, 30)
class QueuePurge(Method, frozen=True):
    """Drop the ready messages of a queue."""

    reserved_1: Short = 0
    queue: Name = ""
    no_wait: Bit = False


@_method("queue.purge-ok", 50, 31)
class QueuePurgeOk(Method, frozen=True):
    """The queue is purged, with the number of messages."""

    message_count: Long = 0


@_method("queue.delete", 50, 40)
class QueueDelete(Method, frozen=True):
    """Delete a queue."""

    reserved_1: Short = 0
    queue: Name = ""
    if_unused: Bit = False
    if_empty: Bit = False
    no_wait: Bit = False


@_method("queue.delete-ok", 50, 41)
class QueueDeleteOk(Method, frozen=True):
    """The queue is deleted, with the number of messages."""

    message_count: Long = 0


@_method("queue.unbind", 50, 50)
class QueueUnbind(Method, frozen=True):
    """Remove a binding of queue.bind."""

    reserved_1: Short = 0
    queue: Name = ""
    exchange: Name = ""
    routing_key: ShortStr = ""
    arguments: FieldTable = EMPTY


@_method("queue.unbind-ok", 50, 51)
class QueueUnbindOk(Method, frozen=True):
    """The binding is removed."""


# --- basic: section 1.8 ----------------------------------------------------------------------


@_method("basic.qos", 60, 10)
class BasicQos(Method, frozen=True):
    """Set the prefetch: the limit of unacknowledged deliveries."""

    prefetch_size: Long = 0
    prefetch_count: Short = 0
    global_: Bit = False


@_method("basic.qos-ok", 60, 11)
class BasicQosOk(Method, frozen=True):
    """The new prefetch applies."""


@_method("basic.consume", 60, 20)
class BasicConsume(Method, frozen=True):
    """Start a consumer on a queue."""

    reserved_1: Short = 0
    queue: Name = ""
    consumer_tag: ShortStr = ""
    no_local: Bit = False
    no_ack: Bit = False
    exclusive: Bit = False
    no_wait: Bit = False
    arguments: FieldTable = EMPTY


@_method("basic.consume-ok", 60, 21)
class BasicConsumeOk(Method, frozen=True):
    """The consumer exists under this tag."""

    consumer_tag: ShortStr = ""


@_method("basic.cancel", 60, 30)
class BasicCancel(Method, frozen=True):
    """End a consumer; from a RabbitMQ server: the consumer has ended."""

    consumer_tag: ShortStr = ""
    no_wait: Bit = False


@_method("basic.cancel-ok", 60, 31)
class BasicCancelOk(Method, frozen=True):
    """The consumer has ended."""

    consumer_tag: ShortStr = ""


@_method("basic.publish", 60, 40, content=True)
class BasicPublish(Method, frozen=True):
    """Send a message to an exchange."""

    reserved_1: Short = 0
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    mandatory: Bit = False
    immediate: Bit = False


@_method("basic.return", 60, 50, content=True)
class BasicReturn(Method, frozen=True):
    """A mandatory or immediate message without a queue or consumer."""

    reply_code: Short = 312
    reply_text: ShortStr = "NO_ROUTE"
    exchange: ShortStr = ""
    routing_key: ShortStr = ""


@_method("basic.deliver", 60, 60, content=True)
class BasicDeliver(Method, frozen=True):
    """A message for a consumer."""

    consumer_tag: ShortStr = ""
    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortStr = ""
    routing_key: ShortStr = ""


@_method("basic.get", 60, 70)
class BasicGet(Method, frozen=True):
    """Request one message of a queue."""

    reserved_1: Short = 0
    queue: Name = ""
    no_ack: Bit = False


@_method("basic.get-ok", 60, 71, content=True)
class BasicGetOk(Method, frozen=True):
    """The requested message, with the number of remaining ones."""

    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    message_count: Long = 0


@_method("basic.get-empty", 60, 72)
class BasicGetEmpty(Method, frozen=True):
    """The queue has no message."""

    reserved_1: ShortStr = ""


@_method("basic.ack", 60, 80)
class BasicAck(Method, frozen=True):
    """Acknowledge deliveries; from a RabbitMQ server: confirm publishes."""

    delivery_tag: LongLong = 0
    multiple: Bit = False


@_method("basic.reject", 60, 90)
class BasicReject(Method, frozen=True):
    """Reject a delivery."""

    delivery_tag: LongLong = 0
    requeue: Bit = True


@_method("basic.recover-async", 60, 100)
class BasicRecoverAsync(Method, frozen=True):
    """Like basic.recover, without an answer; deprecated."""

    requeue: Bit = False


@_method("basic.recover", 60, 110)
class BasicRecover(Method, frozen=True):
    """Redeliver all unacknowledged messages."""

    requeue: Bit = False


@_method("basic.recover-ok", 60, 111)
class BasicRecoverOk(Method, frozen=True):
    """The messages are redelivered."""


@_method("basic.nack", 60, 120)
class BasicNack(Method, frozen=True):
    """RabbitMQ's: reject deliveries; from a server: publishes are lost."""

    delivery_tag: LongLong = 0
    multiple: Bit = False
    requeue: Bit = True


@_method("basic.credit", 60, 200)
class BasicCredit(Method, frozen=True):
    """RabbitMQ's before version 4, for its own AMQP 1.0: grant credit to a consumer."""

    consumer_tag: ShortStr = ""
    credit: Long = 0
    drain: Bit = False


@_method("basic.credit-ok", 60, 201)
class BasicCreditOk(Method, frozen=True):
    """RabbitMQ's: the credit is granted, with the number of messages in the queue."""

    available: Long = 0


@_method("basic.credit-drained", 60, 202)
class BasicCreditDrained(Method, frozen=True):
    """RabbitMQ's: this amount of a consumer's credit was used up without deliveries."""

    consumer_tag: ShortStr = ""
    credit_drained: Long = 0


# --- confirm: RabbitMQ's ---------------------------------------------------------------------


@_method("confirm.select", 85, 10)
class ConfirmSelect(Method, frozen=True):
    """Enable confirms of all publishes on the channel."""

    no_wait: Bit = False


@_method("confirm.select-ok", 85, 11)
class ConfirmSelectOk(Method, frozen=True):
    """Confirms are enabled; publishes count from 1."""


# --- tx: section 1.9 -------------------------------------------------------------------------


@_method("tx.select", 90, 10)
class TxSelect(Method, frozen=True):
    """Make the channel transactional."""


@_method("tx.select-ok", 90, 11)
class TxSelectOk(Method, frozen=True):
    """The channel is transactional."""


@_method("tx.commit", 90, 20)
class TxCommit(Method, frozen=True):
    """Commit all publishes and acknowledgements since the last commit."""


@_method("tx.commit-ok", 90, 21)
class TxCommitOk(Method, frozen=True):
    """The transaction is committed."""


@_method("tx.rollback", 90, 30)
class TxRollback(Method, frozen=True):
    """Discard all publishes and acknowledgements since the last commit."""


@_method("tx.rollback-ok", 90, 31)
class TxRollbackOk(Method, frozen=True):
    """The transaction is rolled back."""
