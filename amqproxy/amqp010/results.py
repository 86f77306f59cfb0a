"""Structs in arguments and results of commands; those of headers are in `properties`."""

from __future__ import annotations

from typing import Annotated

from msgspec import structs

from amqproxy.amqp010.domains import XaStatus
from amqproxy.amqp010.fields import (
    Array,
    Bit,
    ByteRanges,
    Map,
    Required,
    SequenceNo,
    SequenceSet,
    Str8,
    Uint16,
    Uint32,
    Uint64,
    Vbin8,
)
from amqproxy.amqp010.structs import Struct, struct


@struct("session.command-fragment", size=0, pack=0)
class CommandFragment(Struct, frozen=True):
    """Parts of a command, for session.expected and session.confirmed."""

    command_id: Required[SequenceNo] = None
    byte_ranges: Required[ByteRanges] = None


@struct("message.acquired", code=0x0404, size=4, pack=2)
class Acquired(Struct, frozen=True):
    """The messages acquired by message.acquire."""

    transfers: Required[SequenceSet] = None


@struct("message.message-resume-result", code=0x0405, size=4, pack=2)
class MessageResumeResult(Struct, frozen=True):
    """The part of the transfer that was received before."""

    offset: Uint64 | None = None


@struct("dtx.xa-result", code=0x0601, size=4, pack=2)
class XaResult(Struct, frozen=True):
    """The outcome of a transaction branch."""

    status: Required[Annotated[Uint16, XaStatus]] = None


@struct("dtx.xid", code=0x0604, size=4, pack=2)
class Xid(Struct, frozen=True):
    """The name of a transaction branch.

    In Qpid's errata, which its peers follow, it has a code, and its size in four bytes; in the specification, no code,
    and its size in two. Both are decoded; `is_plain` if it has the specification's form, and is encoded so.
    """

    format: Required[Uint32] = None
    global_id: Required[Vbin8] = None
    branch_id: Required[Vbin8] = None
    is_plain: bool = False

    def as_plain(self) -> Xid:
        """Return the name in the specification's form."""
        return structs.replace(self, is_plain=True)

    def encode(self) -> bytes:
        if not self.is_plain:
            return super().encode()
        data = super().encode()[6:]
        return len(data).to_bytes(2) + data


@struct("dtx.get-timeout-result", code=0x0602, size=4, pack=2)
class GetTimeoutResult(Struct, frozen=True):
    """The timeout of a transaction branch, in seconds."""

    timeout: Required[Uint32] = None


@struct("dtx.recover-result", code=0x0603, size=4, pack=2)
class RecoverResult(Struct, frozen=True):
    """The names of transaction branches: an array of `Xid`."""

    in_doubt: Required[Array] = None


@struct("exchange.exchange-query-result", code=0x0701, size=4, pack=2)
class ExchangeQueryResult(Struct, frozen=True):
    """The properties of an exchange."""

    type: Str8 | None = None
    durable: Bit = False
    not_found: Bit = False
    arguments: Map | None = None


@struct("exchange.exchange-bound-result", code=0x0702, size=4, pack=2)
class ExchangeBoundResult(Struct, frozen=True):
    """Whether a binding exists, and the missing parts of it."""

    exchange_not_found: Bit = False
    queue_not_found: Bit = False
    queue_not_matched: Bit = False
    key_not_matched: Bit = False
    args_not_matched: Bit = False


@struct("queue.queue-query-result", code=0x0801, size=4, pack=2)
class QueueQueryResult(Struct, frozen=True):
    """The properties of a queue, and its number of messages."""

    queue: Required[Str8] = None
    alternate_exchange: Str8 | None = None
    durable: Bit = False
    exclusive: Bit = False
    auto_delete: Bit = False
    arguments: Map | None = None
    message_count: Required[Uint32] = None
    subscriber_count: Required[Uint32] = None
