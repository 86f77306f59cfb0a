"""The handshakes of a 0-9-1 client that logs in at the proxy (sections 2.2.4 and 1.4)."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from msgspec.structs import replace

from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import InternalError, ProtocolError
from amqproxy.amqp091.frame import METHOD, every_frame
from amqproxy.amqp091.login import credentials_of, response_of
from amqproxy.amqp091.methods import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER, ConnectionState
from amqproxy.amqp091.wire import Table
from amqproxy.proxy.logins.credential import Credential
from amqproxy.proxy.logins.handshake import (
    BrokerRefused,
    ClientStep,
    Departure,
    Limits,
    Offer,
    Response,
    VhostDown,
    VhostRequest,
)
from amqproxy.proxy.session.session_report import VHOST_DOWN
from amqproxy.rabbitmq.profile import CAPABILITIES
from amqproxy.rules.client_info import updated_client
from amqproxy.rules.context import Client

USUAL = Limits(2047, 131_072, 60)
"""Limits of RabbitMQ's defaults, offered before any broker has been seen."""

PREFIX = 7
"""Bytes of a frame header, before the payload (section 4.2.3)."""


class Amqp091LoginHandshake:
    """The handshakes of one 0-9-1 client: with the proxy, and of the proxy with a broker."""

    ERROR = ProtocolError

    def __init__(self, offer: Offer, initial_frame_max: int) -> None:
        self._offer = offer
        self._frame_max = initial_frame_max
        self.client = Connection(initial_frame_max=initial_frame_max)
        self.client.receive_header(CLIENT, HEADER)
        self._received = b""
        self.sent: ConnectionStartOk | None = None

    # --- with the client

    def start(self, mechanisms: Iterable[str]) -> bytes:
        properties = self._offer.properties or Table({"capabilities": dict.fromkeys(CAPABILITIES, True)})
        return self.client.send(SERVER, 0, ConnectionStart(0, 9, properties, " ".join(mechanisms).encode(), b"en_US"))

    def receive(self, data: bytes) -> list[ClientStep]:
        found: list[ClientStep] = []
        self._received += data
        while len(self._received) >= PREFIX:
            end = PREFIX + int.from_bytes(self._received[3:PREFIX]) + 1
            if end > len(self._received):
                break
            (frame,) = every_frame(self._received[:end], 0)
            self._received = self._received[end:]
            is_method = self.client.receive(CLIENT, frame) and frame.kind == METHOD
            match frame.method if is_method else None:
                case ConnectionStartOk() as start:
                    found.append(Response(start.mechanism, *credentials_of(start.mechanism, start.response)))
                case ConnectionOpen() as request:
                    found.append(VhostRequest(request.virtual_host, self._received))
                    self._received = b""
                case ConnectionClose():
                    found.append(Departure(self.client.send(SERVER, 0, ConnectionCloseOk())))
                case ConnectionCloseOk():
                    found.append(Departure(b""))
                case _:
                    pass
        return found

    def tune(self) -> bytes:
        return self.client.send(SERVER, 0, ConnectionTune(*self._offer.limits(USUAL)))

    def open_ok(self) -> bytes:
        """Return the answer to connection.open, for a client that shares a connection."""
        self.sent = self.client.client
        return self.client.send(SERVER, 0, ConnectionOpenOk())

    def close(self, code: int, text: str) -> bytes:
        is_late = self.client.state in (ConnectionState.AGREED, ConnectionState.OPENING)
        if not is_late and not self._announces_refusals:
            return b""
        return self.client.send(SERVER, 0, ConnectionClose(code, text, 0, 0))

    @property
    def _announces_refusals(self) -> bool:
        start = self.client.client
        return start is not None and updated_client(Client(), start).announced("authentication_failure_close")

    # --- with a broker

    def log_in(self, credential: Credential | None) -> Generator[bytes, bytes, bytes]:
        broker = Connection(initial_frame_max=self._frame_max)
        broker.receive_header(CLIENT, HEADER)
        output, has_opened = b"", False
        while True:
            received = yield output
            output = b""
            frames = broker.feed(SERVER, received)
            for place, frame in enumerate(frames):
                match frame.method if frame.kind == METHOD else None:
                    case ConnectionStart() as start:
                        self._offer.properties = start.server_properties
                        self.sent = self._start_ok(start, credential)
                        output = broker.send(CLIENT, 0, self.sent)
                    case ConnectionTune() as tune:
                        output, has_opened = self._agree(broker, tune), True
                    case ConnectionOpenOk():
                        return b"".join(each.raw for each in frames[place:]) + broker.readers[SERVER].held
                    case ConnectionClose() as close:
                        self._check_close(close, has_opened=has_opened)
                        return b"".join(each.raw for each in frames[place:])
                    case None:
                        pass
                    case _:
                        raise BrokerRefused("it asks for more than one response to the login")

    def _start_ok(self, start: ConnectionStart, credential: Credential | None) -> ConnectionStartOk:
        """Return the client's start-ok, with the credential in place of the client's own if there is one."""
        own = self.client.client
        assert own is not None
        if credential is None:
            return own
        mechanism, response = response_of(start.mechanisms, credential.user, credential.password.reveal())
        return replace(own, mechanism=mechanism, response=response)

    def _agree(self, broker: Connection, tune: ConnectionTune) -> bytes:
        """Answer the broker's tune with what the client has agreed to."""
        self._offer.learn_limits(Limits(tune.channel_max, tune.frame_max, tune.heartbeat))
        agreed = self.client
        try:
            answer = broker.send(CLIENT, 0, ConnectionTuneOk(agreed.channel_max, agreed.frame_max, agreed.heartbeat))
        except ProtocolError as error:
            raise BrokerRefused(
                f"it offers less than the client was offered, which must connect again: {error}"
            ) from None
        return answer + broker.send(CLIENT, 0, ConnectionOpen(agreed.virtual_host))

    def _check_close(self, close: ConnectionClose, *, has_opened: bool) -> None:
        """Raise for a broker's close, unless it is the answer to connection.open, which the client gets as it is."""
        text = f"{close.reply_code} {close.reply_text}"
        if not has_opened:
            raise BrokerRefused(text)
        if close.reply_code == InternalError.code and VHOST_DOWN in close.reply_text:
            raise VhostDown(text)
