"""Events of a connection, as immutable values.

Each event has the time of the read in which it was completed, in nanoseconds since 1970, and its channel; 0 is the
connection itself. `latency_ns` is the time since the read with the frame that the event answers.

`epoch` counts the openings of the channel's number on the connection, from 1: it distinguishes successive channels with
the same number. It is 0 for a channel that was open before the first frame that was seen.

Publishes of a channel are numbered from 1 as they are seen, in any mode of the channel; deliveries have their delivery
tag. `None` stands for facts that the trace cannot know.

For 0-10, a session attached to a channel takes the place of the channel, and a command id that of the delivery tag; the
methods of messages are in `transfers`, with the same field names. Requests, replies and causes are the commands and
controls themselves: `equivalents` has the 0-9-1 methods for those that both protocols have. A session, and not only the
connection itself, may be on channel 0: see `EventBase.on_channel`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from amqproxy.amqp010.methods import Method as Amqp010Method
from amqproxy.amqp010.wire import Map
from amqproxy.amqp091.methods import BasicDeliver, BasicGetOk, BasicPublish, BasicReturn
from amqproxy.amqp091.methods import Method as Amqp091Method
from amqproxy.amqp091.properties import Properties
from amqproxy.peer import Peer
from amqproxy.taps.amqp010.transfers import TransferDelivery, TransferProperties, TransferPublish, TransferReturn
from amqproxy.taps.trace.open_tags import Span
from amqproxy.taps.trace.snapshot import ConnectionSnapshot, HandshakeSnapshot

Method: TypeAlias = Amqp091Method | Amqp010Method
"""A method, command or control of either protocol."""

PublishMethod: TypeAlias = BasicPublish | TransferPublish
DeliveryMethod: TypeAlias = BasicDeliver | BasicGetOk | TransferDelivery
ReturnMethod: TypeAlias = BasicReturn | TransferReturn
CommandMethod: TypeAlias = Method | TransferPublish | TransferDelivery | TransferReturn
"""The method or command that carried a message or a request."""
MessageProperties: TypeAlias = Properties | TransferProperties


def encoded_headers(properties: MessageProperties) -> bytes:
    """Return the headers of a message as they are on the wire; b"" if it has none."""
    headers = properties.headers
    if headers is None:
        return b""
    return headers.encoded if isinstance(headers, Map) else headers.octets


PROXY = "proxy"
"""Name of the proxy as the closer of a connection or channel."""


class Settlement(StrEnum):
    """Outcome of publishes or deliveries."""

    CONFIRMED = "confirmed"
    """The broker has confirmed publishes: basic.ack; for 0-10, it has completed or accepted them."""
    NACKED = "nacked"
    """The broker has refused publishes, or the client deliveries: basic.nack; for 0-10, it has rejected publishes."""
    COMMITTED = "committed"
    """Publishes whose transaction was committed."""
    ROLLED_BACK = "rolled back"
    """Publishes whose transaction was rolled back."""
    ACKED = "acked"
    REJECTED = "rejected"
    """The client has refused deliveries: basic.reject, message.reject."""
    RECOVERED = "recovered"
    """The client has given back deliveries: all of the channel by basic.recover, some by message.release."""
    OPEN = "open"
    """They were still open when their channel ended."""
    UNKNOWN = "unknown"
    """They were open when the trace lost sight of them."""


class EventBase(msgspec.Struct, frozen=True, gc=False):
    """Fields common to all events."""

    ts_ns: int
    channel: int = 0
    epoch: int = 0

    @property
    def on_channel(self) -> int | None:
        """The channel; `None` for the connection itself."""
        return self.channel or None


class ChannelEventBase(EventBase, frozen=True, kw_only=True):
    """Base of events that always belong to a channel, which for 0-10 may be channel 0."""

    @property
    def on_channel(self) -> int | None:
        return self.channel


class MixedEventBase(EventBase, frozen=True, kw_only=True):
    """Base of events that belong to the connection itself, or to a channel, which for 0-10 may be channel 0."""

    @property
    def on_channel(self) -> int | None:
        return self.channel if self.channel or self.epoch else None


class ConnectionOpened(EventBase, frozen=True, kw_only=True):
    """connection.open-ok. The two tables are the peers' properties; limits are as agreed in tune-ok.

    For 0-10, `frame_max` is max-frame-size.
    """

    virtual_host: str | None
    mechanism: str | None
    user: str | None
    client_properties: dict[str, Any] | None
    server_properties: dict[str, Any] | None
    channel_max: int | None
    frame_max: int | None
    heartbeat: int | None
    latency_ns: int | None


class BlockingStarted(EventBase, frozen=True, kw_only=True):
    """connection.blocked: the broker takes no publishes for now."""

    reason: str


class BlockingEnded(EventBase, frozen=True, kw_only=True):
    """connection.unblocked; `latency_ns` is the time for which the connection was blocked."""

    latency_ns: int | None


class ConnectionClosed(EventBase, frozen=True, kw_only=True):
    """connection.close, or the end without one: `by` is then None, and `code` 0.

    `method` is the method that the close names as its cause, `cause` that method with its arguments, if it is certain
    which one it was. `is_open` is whether the connection had been opened before, `is_by_proxy` whether the proxy has
    closed it in the name of that peer. `handshake` has the facts of a connection that was not opened: of a login that
    was refused, the user.
    """

    by: Peer | None
    code: int
    text: str
    method: str | None = None
    cause: Method | None = None
    is_open: bool | None = None
    is_by_proxy: bool = False
    handshake: HandshakeSnapshot | None = None


class ChannelOpened(ChannelEventBase, frozen=True, kw_only=True):
    """channel.open-ok; for 0-10, session.attached, with the session's name."""

    latency_ns: int | None
    session_name: str | None = None


class ChannelClosed(ChannelEventBase, frozen=True, kw_only=True):
    """channel.close; its fields have the same meaning as those of `ConnectionClosed`.

    For 0-10: execution.exception, with its error code; or, without one, session.detach, or a session.detached that
    answers none, whose code is the one of section 9.2, 0 if it is normal.

    Messages still open on the channel are reported after close-ok, since confirms and deliveries may come until then.
    """

    by: Peer
    code: int
    text: str
    method: str | None = None
    cause: Method | None = None
    is_by_proxy: bool = False


def closer(event: ConnectionClosed | ChannelClosed) -> str | None:
    """Return who sent a close: "client", "server" or "proxy"; `None` if the connection ended without one."""
    return PROXY if event.is_by_proxy else None if event.by is None else str(event.by)


class RequestSent(MixedEventBase, frozen=True, kw_only=True):
    """A method with `no_wait`, which gets no reply; for 0-10, a command about credit."""

    sender: Peer
    request: Method


class RequestAnswered(MixedEventBase, frozen=True, kw_only=True):
    """A synchronous method and its reply. A basic.get that got a message is a `MessageDelivered`, too.

    For 0-10, a command that carries no message and settles none, with its execution.result, or with a session.completed
    that is reduced to this command.
    """

    sender: Peer
    request: Method | None
    reply: Method
    latency_ns: int | None


class RequestUnanswered(MixedEventBase, frozen=True, kw_only=True):
    """A request without a reply when its channel or connection ended."""

    sender: Peer
    request: Method
    latency_ns: int


class MessagePublished(ChannelEventBase, frozen=True, kw_only=True):
    """basic.publish, complete. `confirm_tag` is the tag by which the broker will confirm it; for 0-10, the command id.

    `awaits` is whether an outcome follows: a confirm, the end of a transaction, or, if the broker no longer reads the
    publish, the end of the channel. `body` is the part of the body that the trace keeps, `digest` is that of the whole
    body, if the trace makes digests, as in the other events. `size` is `None` if not even the header was shown, since a
    rule did not forward the publish.
    """

    number: int
    method: PublishMethod
    properties: MessageProperties
    size: int | None
    body: bytes = b""
    digest: bytes = b""
    confirm_tag: int | None = None
    awaits: bool | None


class MessageReturned(ChannelEventBase, frozen=True, kw_only=True):
    """basic.return, complete; `number` is that of the publish, if only one can be meant.

    For 0-10, a publish that the broker rejects since no queue takes it.
    """

    number: int | None
    method: ReturnMethod
    properties: MessageProperties
    size: int
    body: bytes = b""
    digest: bytes = b""


class PublishesSettled(ChannelEventBase, frozen=True, kw_only=True):
    """Outcome of publishes, whose numbers and times are in `spans`.

    `is_unknown_tag` is whether the broker named a tag that is not open; `None` if that cannot be known. With
    `multiple`, it has still confirmed the earlier publishes.
    """

    outcome: Settlement
    spans: tuple[Span, ...]
    is_unknown_tag: bool | None = False


class MessageDelivered(ChannelEventBase, frozen=True, kw_only=True):
    """basic.deliver or basic.get-ok, complete. `queue` is the consumer's, or the one that basic.get named.

    `awaits` is whether the client has to settle it; for 0-10, whether its accept-mode is explicit. `is_browsed` is
    whether the message stays in its queue, since the client only browses it (acquire-mode not-acquired).
    """

    method: DeliveryMethod
    properties: MessageProperties
    size: int
    body: bytes = b""
    digest: bytes = b""
    queue: str | None
    awaits: bool | None
    is_browsed: bool = False
    latency_ns: int | None = None
    """Time since the basic.get that the message answers, in nanoseconds; `None` for other deliveries."""

    @property
    def outcome(self) -> str | None:
        """Final outcome of a delivery that needs no settlement: auto-acked or browsed; `None` if it may need one."""
        if self.awaits is not False:
            return None
        return "browsed" if self.is_browsed else "auto-acked"


class DeliveriesSettled(ChannelEventBase, frozen=True, kw_only=True):
    """Outcome of deliveries, whose tags and times are in `spans`.

    `tag` and `multiple` are as the client sent them; for 0-10, where a command names a set, `tag` is the first one that
    is not open, or else the last, and `command` is the command's name. `is_unknown_tag` is whether the client named a
    tag that is not open; `None` if that cannot be known. `requeue` is whether the deliveries return to their queue.
    Unless `is_certain`, the beginning of the channel, or of a consumer, was not seen: the settlement may be in a
    transaction, or of deliveries that need no acknowledgement.
    """

    outcome: Settlement
    spans: tuple[Span, ...]
    tag: int | None = None
    multiple: bool = False
    requeue: bool | None = False
    command: str = ""
    is_unknown_tag: bool | None = False
    is_certain: bool = True


class FlowChanged(ChannelEventBase, frozen=True, kw_only=True):
    """channel.flow: `sender` asks the other peer to resume, or to stop, sending contents."""

    sender: Peer
    is_active: bool


class HistoryLost(MixedEventBase, frozen=True, kw_only=True):
    """Loss of history: unreadable bytes of `sender`, or a connection joined in its middle. All open state is unknown.

    For a single channel: its traffic cannot be followed.
    """

    sender: Peer | None
    reason: str


class StateRestored(EventBase, frozen=True, kw_only=True):
    """A snapshot's state, taken by a trace that has joined, or has lost history: what came before was not seen.

    The facts are those of the handshake, as in `ConnectionOpened`.
    """

    virtual_host: str | None = None
    user: str | None = None
    client_properties: dict[str, Any] | None = None
    blocked_since_ns: int | None = None
    """Time of the connection.blocked that still holds."""
    snapshot: ConnectionSnapshot | None = None
    """The snapshot, for readers of consumers and declarations."""


TraceEvent: TypeAlias = (
    ConnectionOpened
    | BlockingStarted
    | BlockingEnded
    | ConnectionClosed
    | ChannelOpened
    | ChannelClosed
    | RequestSent
    | RequestAnswered
    | RequestUnanswered
    | MessagePublished
    | MessageReturned
    | PublishesSettled
    | MessageDelivered
    | DeliveriesSettled
    | FlowChanged
    | HistoryLost
    | StateRestored
)
