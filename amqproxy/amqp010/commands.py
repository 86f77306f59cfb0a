"""Commands of AMQP 0-10, one small typed class each (section 10)."""

from __future__ import annotations

from typing import Annotated

from amqproxy.amqp010.domains import AcceptMode, AcquireMode, CreditUnit, ErrorCode, FlowMode, RejectCode, ReturnCode
from amqproxy.amqp010.fields import (
    Bit,
    Map,
    Required,
    SequenceNo,
    SequenceSet,
    Str8,
    Str16,
    Struct32,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
)
from amqproxy.amqp010.methods import Command
from amqproxy.amqp010.methods import command as _command
from amqproxy.amqp010.properties import (
    DeliveryProperties,
    FileProperties,
    FragmentProperties,
    MessageProperties,
    StreamProperties,
)
from amqproxy.amqp010.results import (
    Acquired,
    ExchangeBoundResult,
    ExchangeQueryResult,
    GetTimeoutResult,
    MessageResumeResult,
    QueueQueryResult,
    RecoverResult,
    XaResult,
    Xid,
)

# --- execution ---------------------------------------------------------------------------------


@_command("execution.sync", 0x3, 0x1, must="server client")
class ExecutionSync(Command, frozen=True):
    """Completed once all commands before it are."""


@_command("execution.result", 0x3, 0x2, must="server client")
class ExecutionResult(Command, frozen=True):
    """The result of a command."""

    command_id: Required[SequenceNo] = None
    value: Struct32 | None = None


@_command("execution.exception", 0x3, 0x3, must="client server")
class ExecutionException(Command, frozen=True):
    """The reason for a command's failure; its session ends."""

    error_code: Required[Annotated[Uint16, ErrorCode]] = None
    command_id: SequenceNo | None = None
    failing_class_code: Uint8 | None = None
    failing_command_code: Uint8 | None = None
    field_index: Uint8 | None = None
    description: Str16 | None = None
    error_info: Map | None = None


# --- message -----------------------------------------------------------------------------------


@_command(
    "message.transfer",
    0x4,
    0x1,
    must="server client",
    entries=(DeliveryProperties, FragmentProperties, MessageProperties),
)
class MessageTransfer(Command, frozen=True):
    """A message, to an exchange or to a subscription."""

    destination: Str8 | None = None
    accept_mode: Required[Annotated[Uint8, AcceptMode]] = None
    acquire_mode: Required[Annotated[Uint8, AcquireMode]] = None


@_command("message.accept", 0x4, 0x2, must="server client")
class MessageAccept(Command, frozen=True):
    """Messages are accepted, and need not be kept."""

    transfers: Required[SequenceSet] = None


@_command("message.reject", 0x4, 0x3, must="server client")
class MessageReject(Command, frozen=True):
    """Messages cannot be processed."""

    transfers: Required[SequenceSet] = None
    code: Required[Annotated[Uint16, RejectCode]] = None
    text: Str8 | None = None


@_command("message.release", 0x4, 0x4, must="server", may="client")
class MessageRelease(Command, frozen=True):
    """Messages are given back, to be delivered again."""

    transfers: Required[SequenceSet] = None
    set_redelivered: Bit = False


@_command("message.acquire", 0x4, 0x5, must="server", result=Acquired)
class MessageAcquire(Command, frozen=True):
    """Request messages that were sent without being acquired."""

    transfers: Required[SequenceSet] = None


@_command("message.resume", 0x4, 0x6, must="server client", result=MessageResumeResult)
class MessageResume(Command, frozen=True):
    """Resume a transfer that was interrupted."""

    destination: Str8 | None = None
    resume_id: Required[Str16] = None


@_command("message.subscribe", 0x4, 0x7, must="server")
class MessageSubscribe(Command, frozen=True):
    """Subscribe to a queue; `destination` is the subscription's name."""

    queue: Required[Str8] = None
    destination: Str8 | None = None
    accept_mode: Required[Annotated[Uint8, AcceptMode]] = None
    acquire_mode: Required[Annotated[Uint8, AcquireMode]] = None
    exclusive: Bit = False
    resume_id: Str16 | None = None
    resume_ttl: Uint64 | None = None
    arguments: Map | None = None


@_command("message.cancel", 0x4, 0x8, must="server")
class MessageCancel(Command, frozen=True):
    """End a subscription."""

    destination: Required[Str8] = None


@_command("message.set-flow-mode", 0x4, 0x9, must="server client")
class MessageSetFlowMode(Command, frozen=True):
    """Set whether a subscription's credit is a window."""

    destination: Str8 | None = None
    flow_mode: Required[Annotated[Uint8, FlowMode]] = None


@_command("message.flow", 0x4, 0xA, must="server client")
class MessageFlow(Command, frozen=True):
    """Credit for a subscription, 0xFFFFFFFF of which is infinite."""

    destination: Str8 | None = None
    unit: Required[Annotated[Uint8, CreditUnit]] = None
    value: Uint32 | None = None


@_command("message.flush", 0x4, 0xB, must="server")
class MessageFlush(Command, frozen=True):
    """Deliver the available messages, then end all credit."""

    destination: Str8 | None = None


@_command("message.stop", 0x4, 0xC, must="server client")
class MessageStop(Command, frozen=True):
    """End all credit."""

    destination: Str8 | None = None


# --- tx ----------------------------------------------------------------------------------------


@_command("tx.select", 0x5, 0x1, must="server")
class TxSelect(Command, frozen=True):
    """Make the session's commands transactional."""


@_command("tx.commit", 0x5, 0x2, must="server")
class TxCommit(Command, frozen=True):
    """Commit the transaction, and begin another one."""


@_command("tx.rollback", 0x5, 0x3, must="server")
class TxRollback(Command, frozen=True):
    """Roll back the transaction, and begin another one."""


# --- dtx ---------------------------------------------------------------------------------------


@_command("dtx.select", 0x6, 0x1, may="server")
class DtxSelect(Command, frozen=True):
    """Allow the session to be associated with transaction branches."""


@_command("dtx.start", 0x6, 0x2, may="server", result=XaResult)
class DtxStart(Command, frozen=True):
    """Associate the session with a transaction branch."""

    xid: Required[Xid] = None
    join: Bit = False
    resume: Bit = False


@_command("dtx.end", 0x6, 0x3, may="server", result=XaResult)
class DtxEnd(Command, frozen=True):
    """End the association with a transaction branch."""

    xid: Required[Xid] = None
    fail: Bit = False
    suspend: Bit = False


@_command("dtx.commit", 0x6, 0x4, may="server", result=XaResult)
class DtxCommit(Command, frozen=True):
    """Commit the work of a transaction branch."""

    xid: Required[Xid] = None
    one_phase: Bit = False


@_command("dtx.forget", 0x6, 0x5, may="server")
class DtxForget(Command, frozen=True):
    """Forget a transaction branch that was completed heuristically."""

    xid: Required[Xid] = None


@_command("dtx.get-timeout", 0x6, 0x6, may="server", result=GetTimeoutResult)
class DtxGetTimeout(Command, frozen=True):
    """Request the timeout of a transaction branch."""

    xid: Required[Xid] = None


@_command("dtx.prepare", 0x6, 0x7, may="server", result=XaResult)
class DtxPrepare(Command, frozen=True):
    """Prepare the work of a transaction branch for being committed."""

    xid: Required[Xid] = None


@_command("dtx.recover", 0x6, 0x8, may="server", result=RecoverResult)
class DtxRecover(Command, frozen=True):
    """Request the transaction branches that are prepared or were completed heuristically."""


@_command("dtx.rollback", 0x6, 0x9, may="server", result=XaResult)
class DtxRollback(Command, frozen=True):
    """Roll back the work of a transaction branch."""

    xid: Required[Xid] = None


@_command("dtx.set-timeout", 0x6, 0xA, may="server")
class DtxSetTimeout(Command, frozen=True):
    """Set the timeout of a transaction branch, in seconds."""

    xid: Required[Xid] = None
    timeout: Required[Uint32] = None


# --- exchange ----------------------------------------------------------------------------------


@_command("exchange.declare", 0x7, 0x1, must="server")
class ExchangeDeclare(Command, frozen=True):
    """Create an exchange, or check that it exists with these properties."""

    exchange: Required[Str8] = None
    type: Required[Str8] = None
    alternate_exchange: Str8 | None = None
    passive: Bit = False
    durable: Bit = False
    auto_delete: Bit = False
    arguments: Map | None = None


@_command("exchange.delete", 0x7, 0x2, must="server")
class ExchangeDelete(Command, frozen=True):
    """Delete an exchange."""

    exchange: Required[Str8] = None
    if_unused: Bit = False


@_command("exchange.query", 0x7, 0x3, must="server", result=ExchangeQueryResult)
class ExchangeQuery(Command, frozen=True):
    """Request the properties of an exchange."""

    name_: Str8 | None = None


@_command("exchange.bind", 0x7, 0x4, must="server")
class ExchangeBind(Command, frozen=True):
    """Bind a queue to an exchange."""

    queue: Required[Str8] = None
    exchange: Required[Str8] = None
    binding_key: Required[Str8] = None
    arguments: Map | None = None


@_command("exchange.unbind", 0x7, 0x5, must="server")
class ExchangeUnbind(Command, frozen=True):
    """Remove a binding."""

    queue: Required[Str8] = None
    exchange: Required[Str8] = None
    binding_key: Required[Str8] = None


@_command("exchange.bound", 0x7, 0x6, must="server", result=ExchangeBoundResult)
class ExchangeBound(Command, frozen=True):
    """Ask whether a binding exists."""

    exchange: Str8 | None = None
    queue: Required[Str8] = None
    binding_key: Str8 | None = None
    arguments: Map | None = None


# --- queue -------------------------------------------------------------------------------------


@_command("queue.declare", 0x8, 0x1, must="server")
class QueueDeclare(Command, frozen=True):
    """Create a queue, or check that it exists with these properties."""

    queue: Required[Str8] = None
    alternate_exchange: Str8 | None = None
    passive: Bit = False
    durable: Bit = False
    exclusive: Bit = False
    auto_delete: Bit = False
    arguments: Map | None = None


@_command("queue.delete", 0x8, 0x2, must="server")
class QueueDelete(Command, frozen=True):
    """Delete a queue."""

    queue: Required[Str8] = None
    if_unused: Bit = False
    if_empty: Bit = False


@_command("queue.purge", 0x8, 0x3, must="server")
class QueuePurge(Command, frozen=True):
    """Remove all messages of a queue that are not acquired."""

    queue: Required[Str8] = None


@_command("queue.query", 0x8, 0x4, must="server", result=QueueQueryResult)
class QueueQuery(Command, frozen=True):
    """Request the properties of a queue, and its number of messages."""

    queue: Required[Str8] = None


# --- file --------------------------------------------------------------------------------------


@_command("file.qos", 0x9, 0x1, must="server", responses="file.qos-ok")
class FileQos(Command, frozen=True):
    """Limit the messages that are sent in advance."""

    prefetch_size: Uint32 | None = None
    prefetch_count: Uint16 | None = None
    global_: Bit = False


@_command("file.qos-ok", 0x9, 0x2, must="client")
class FileQosOk(Command, frozen=True):
    """The limits are in effect."""


@_command("file.consume", 0x9, 0x3, must="server", responses="file.consume-ok")
class FileConsume(Command, frozen=True):
    """Consume from a queue."""

    queue: Str8 | None = None
    consumer_tag: Str8 | None = None
    no_local: Bit = False
    no_ack: Bit = False
    exclusive: Bit = False
    nowait: Bit = False
    arguments: Map | None = None


@_command("file.consume-ok", 0x9, 0x4, must="client")
class FileConsumeOk(Command, frozen=True):
    """The consumer's tag."""

    consumer_tag: Str8 | None = None


@_command("file.cancel", 0x9, 0x5, must="server")
class FileCancel(Command, frozen=True):
    """End a consumer."""

    consumer_tag: Str8 | None = None


@_command("file.open", 0x9, 0x6, must="server client", responses="file.open-ok")
class FileOpen(Command, frozen=True):
    """Begin to stage a message."""

    identifier: Str8 | None = None
    content_size: Uint64 | None = None


@_command("file.open-ok", 0x9, 0x7, must="server client", responses="file.stage")
class FileOpenOk(Command, frozen=True):
    """Staging may begin, or continue after the staged part."""

    staged_size: Uint64 | None = None


@_command("file.stage", 0x9, 0x8, must="server client", entries=(FileProperties,), requires_header=True)
class FileStage(Command, frozen=True):
    """The content of a message, staged."""


@_command("file.publish", 0x9, 0x9, must="server")
class FilePublish(Command, frozen=True):
    """Publish a staged message."""

    exchange: Str8 | None = None
    routing_key: Str8 | None = None
    mandatory: Bit = False
    immediate: Bit = False
    identifier: Str8 | None = None


@_command("file.return", 0x9, 0xA, must="client", entries=(FileProperties,), requires_header=True)
class FileReturn(Command, frozen=True):
    """An undeliverable message, with the reason."""

    reply_code: Annotated[Uint16, ReturnCode] | None = None
    reply_text: Str8 | None = None
    exchange: Str8 | None = None
    routing_key: Str8 | None = None


@_command("file.deliver", 0x9, 0xB, must="client")
class FileDeliver(Command, frozen=True):
    """Deliver a staged message."""

    consumer_tag: Str8 | None = None
    delivery_tag: Uint64 | None = None
    redelivered: Bit = False
    exchange: Str8 | None = None
    routing_key: Str8 | None = None
    identifier: Str8 | None = None


@_command("file.ack", 0x9, 0xC, must="server")
class FileAck(Command, frozen=True):
    """Messages are processed."""

    delivery_tag: Uint64 | None = None
    multiple: Bit = False


@_command("file.reject", 0x9, 0xD, must="server")
class FileReject(Command, frozen=True):
    """A message cannot be processed."""

    delivery_tag: Uint64 | None = None
    requeue: Bit = False


# --- stream ------------------------------------------------------------------------------------


@_command("stream.qos", 0xA, 0x1, must="server", responses="stream.qos-ok")
class StreamQos(Command, frozen=True):
    """Limit the messages that are sent in advance, and their rate."""

    prefetch_size: Uint32 | None = None
    prefetch_count: Uint16 | None = None
    consume_rate: Uint32 | None = None
    global_: Bit = False


@_command("stream.qos-ok", 0xA, 0x2, must="client")
class StreamQosOk(Command, frozen=True):
    """The limits are in effect."""


@_command("stream.consume", 0xA, 0x3, must="server", responses="stream.consume-ok")
class StreamConsume(Command, frozen=True):
    """Consume from a queue."""

    queue: Str8 | None = None
    consumer_tag: Str8 | None = None
    no_local: Bit = False
    exclusive: Bit = False
    nowait: Bit = False
    arguments: Map | None = None


@_command("stream.consume-ok", 0xA, 0x4, must="client")
class StreamConsumeOk(Command, frozen=True):
    """The consumer's tag."""

    consumer_tag: Str8 | None = None


@_command("stream.cancel", 0xA, 0x5, must="server")
class StreamCancel(Command, frozen=True):
    """End a consumer."""

    consumer_tag: Str8 | None = None


@_command("stream.publish", 0xA, 0x6, must="server", entries=(StreamProperties,), requires_header=True)
class StreamPublish(Command, frozen=True):
    """Publish a message."""

    exchange: Str8 | None = None
    routing_key: Str8 | None = None
    mandatory: Bit = False
    immediate: Bit = False


@_command("stream.return", 0xA, 0x7, must="client", entries=(StreamProperties,), requires_header=True)
class StreamReturn(Command, frozen=True):
    """An undeliverable message, with the reason."""

    reply_code: Annotated[Uint16, ReturnCode] | None = None
    reply_text: Str8 | None = None
    exchange: Str8 | None = None
    routing_key: Str8 | None = None


@_command("stream.deliver", 0xA, 0x8, must="client", entries=(StreamProperties,), requires_header=True)
class StreamDeliver(Command, frozen=True):
    """Deliver a message."""

    consumer_tag: Str8 | None = None
    delivery_tag: Uint64 | None = None
    exchange: Str8 | None = None
    queue: Required[Str8] = None
