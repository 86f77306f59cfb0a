"""Controls of AMQP 0-10, one small typed class each (section 9)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from amqproxy.amqp010.domains import CloseCode, DetachCode
from amqproxy.amqp010.fields import (
    Array,
    Bit,
    Map,
    Required,
    SequenceNo,
    SequenceSet,
    Str8,
    Str16,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Vbin16,
    Vbin32,
)
from amqproxy.amqp010.methods import Control
from amqproxy.amqp010.methods import control as _control

# --- connection --------------------------------------------------------------------------------


@_control("connection.start", 0x1, 0x1, must="client", responses="connection.start-ok")
class ConnectionStart(Control, frozen=True):
    """The server's properties, login mechanisms and locales."""

    server_properties: Map | None = None
    mechanisms: Required[Array] = None
    locales: Required[Array] = None


@_control("connection.start-ok", 0x1, 0x2, must="server")
class ConnectionStartOk(Control, frozen=True):
    """The client's mechanism and locale, and its first response (a secret)."""

    secret: ClassVar[str] = "response"

    client_properties: Map | None = None
    mechanism: Required[Str8] = None
    response: Required[Vbin32] = None
    locale: Required[Str8] = None


@_control("connection.secure", 0x1, 0x3, must="client", responses="connection.secure-ok")
class ConnectionSecure(Control, frozen=True):
    """A further challenge of the login mechanism."""

    challenge: Required[Vbin32] = None


@_control("connection.secure-ok", 0x1, 0x4, must="server")
class ConnectionSecureOk(Control, frozen=True):
    """The response to a challenge (a secret)."""

    secret: ClassVar[str] = "response"

    response: Required[Vbin32] = None


@_control("connection.tune", 0x1, 0x5, must="client", responses="connection.tune-ok")
class ConnectionTune(Control, frozen=True):
    """Limits proposed by the server; heartbeats are in seconds."""

    channel_max: Uint16 | None = None
    max_frame_size: Uint16 | None = None
    heartbeat_min: Uint16 | None = None
    heartbeat_max: Uint16 | None = None


@_control("connection.tune-ok", 0x1, 0x6, must="server")
class ConnectionTuneOk(Control, frozen=True):
    """The negotiated limits."""

    channel_max: Required[Uint16] = None
    max_frame_size: Uint16 | None = None
    heartbeat: Uint16 | None = None


@_control("connection.open", 0x1, 0x7, must="server", responses="connection.open-ok connection.redirect")
class ConnectionOpen(Control, frozen=True):
    """Open a virtual host."""

    virtual_host: Required[Str8] = None
    capabilities: Array | None = None
    insist: Bit = False


@_control("connection.open-ok", 0x1, 0x8, must="client")
class ConnectionOpenOk(Control, frozen=True):
    """The virtual host is open."""

    known_hosts: Array | None = None


@_control("connection.redirect", 0x1, 0x9, must="client")
class ConnectionRedirect(Control, frozen=True):
    """Redirect the client to another host."""

    host: Required[Str16] = None
    known_hosts: Array | None = None


@_control("connection.heartbeat", 0x1, 0xA, may="client server")
class ConnectionHeartbeat(Control, frozen=True):
    """The sender is alive."""


@_control("connection.close", 0x1, 0xB, must="client server", responses="connection.close-ok")
class ConnectionClose(Control, frozen=True):
    """Close the connection, with the reason."""

    reply_code: Required[Annotated[Uint16, CloseCode]] = None
    reply_text: Str8 | None = None


@_control("connection.close-ok", 0x1, 0xC, must="client server")
class ConnectionCloseOk(Control, frozen=True):
    """The close is confirmed; the socket may be closed."""


# --- session -----------------------------------------------------------------------------------


@_control("session.attach", 0x2, 0x1, must="server", may="client", responses="session.attached session.detached")
class SessionAttach(Control, frozen=True):
    """Attach a session to the channel; with `force`, take it from another one."""

    name_: Required[Vbin16] = None
    force: Bit = False


@_control("session.attached", 0x2, 0x2, must="server client")
class SessionAttached(Control, frozen=True):
    """The session is attached to the channel."""

    name_: Required[Vbin16] = None


@_control("session.detach", 0x2, 0x3, must="server client", responses="session.detached")
class SessionDetach(Control, frozen=True):
    """Detach the session from the channel."""

    name_: Required[Vbin16] = None


@_control("session.detached", 0x2, 0x4, must="server client")
class SessionDetached(Control, frozen=True):
    """The session is not attached to the channel, with the reason."""

    name_: Required[Vbin16] = None
    code: Required[Annotated[Uint8, DetachCode]] = None


@_control("session.request-timeout", 0x2, 0x5, must="sender receiver", responses="session.timeout")
class SessionRequestTimeout(Control, frozen=True):
    """Request the time for which the session is kept once detached, in seconds; for ever without the field."""

    timeout: Uint32 | None = None


@_control("session.timeout", 0x2, 0x6, must="sender receiver")
class SessionTimeout(Control, frozen=True):
    """The time for which the session is kept once detached, in seconds; for ever without the field."""

    timeout: Uint32 | None = None


@_control("session.command-point", 0x2, 0x7, must="receiver")
class SessionCommandPoint(Control, frozen=True):
    """The id of the next command, and the number of its bytes that were sent before."""

    command_id: Required[SequenceNo] = None
    command_offset: Required[Uint64] = None


@_control("session.expected", 0x2, 0x8, must="sender")
class SessionExpected(Control, frozen=True):
    """The commands that the receiver expects to be sent, again or for the first time."""

    commands: Required[SequenceSet] = None
    fragments: Array | None = None


@_control("session.confirmed", 0x2, 0x9, must="sender")
class SessionConfirmed(Control, frozen=True):
    """The commands that survive a lost transport."""

    commands: SequenceSet | None = None
    fragments: Array | None = None


@_control("session.completed", 0x2, 0xA, must="sender")
class SessionCompleted(Control, frozen=True):
    """The commands that are completed."""

    commands: SequenceSet | None = None
    timely_reply: Bit = False


@_control("session.known-completed", 0x2, 0xB, must="receiver")
class SessionKnownCompleted(Control, frozen=True):
    """The completed commands that the peer knows to be completed."""

    commands: SequenceSet | None = None


@_control("session.flush", 0x2, 0xC, must="receiver")
class SessionFlush(Control, frozen=True):
    """Request the peer's expected, confirmed or completed commands."""

    expected: Bit = False
    confirmed: Bit = False
    completed: Bit = False


@_control("session.gap", 0x2, 0xD, must="receiver")
class SessionGap(Control, frozen=True):
    """Commands that will not be sent."""

    commands: SequenceSet | None = None
