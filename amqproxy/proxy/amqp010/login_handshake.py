"""The handshakes of a 0-10 client that logs in at the proxy (section 9.1)."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

from msgspec.structs import replace

from amqproxy.amqp010.assembly import Assembly, AssemblyReader
from amqproxy.amqp010.connection import Connection
from amqproxy.amqp010.controls import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionHeartbeat,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionRedirect,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.wire import Array, Map
from amqproxy.amqp091.login import credentials_of
from amqproxy.conversion.amqp010.error_codes import connection_code
from amqproxy.conversion.amqp010.method_views import DEFAULT_VHOST
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.logins.credential import Credential
from amqproxy.proxy.logins.handshake import BrokerRefused, ClientStep, Departure, Limits, Offer, Response, VhostRequest

USUAL = Limits(32_767, 65_535, 120)
"""Limits of Qpid's defaults, offered before any broker has been seen."""


class Amqp010LoginHandshake:
    """The handshakes of one 0-10 client: with the proxy, and of the proxy with a broker."""

    ERROR = ProtocolError

    def __init__(self, offer: Offer, initial_frame_max: int) -> None:
        self._offer = offer
        self._frame_max = initial_frame_max
        self._client = Connection(initial_frame_max=initial_frame_max)
        self._client.receive_header(CLIENT, HEADER)
        self._controls = AssemblyReader()
        self._agreed = ConnectionTuneOk()
        self.sent: ConnectionStartOk | None = None

    # --- with the client

    def start(self, mechanisms: Iterable[str]) -> bytes:
        self._client.receive_header(SERVER, HEADER)
        start = ConnectionStart(self._offer.properties or Map(), Array("str16", mechanisms), Array("str16", ["en_US"]))
        return HEADER + self._client.send(SERVER, Assembly(0, start))

    def receive(self, data: bytes) -> list[ClientStep]:
        found: list[ClientStep] = []
        for _, method in _methods(self._client, CLIENT, data, self._controls):
            match method:
                case ConnectionStartOk():
                    mechanism = method.mechanism or ""
                    found.append(Response(mechanism, *credentials_of(mechanism, method.response or b"")))
                case ConnectionTuneOk():
                    self._agreed = method
                case ConnectionOpen():
                    found.append(VhostRequest(method.virtual_host or DEFAULT_VHOST, b""))
                case ConnectionClose():
                    found.append(Departure(self._client.send(SERVER, Assembly(0, ConnectionCloseOk()))))
                case ConnectionCloseOk():
                    found.append(Departure(b""))
                case _:
                    pass
        return found

    def tune(self) -> bytes:
        channel_max, frame_max, heartbeat = self._offer.limits(USUAL)
        return self._client.send(SERVER, Assembly(0, ConnectionTune(channel_max, frame_max, 0, heartbeat)))

    def close(self, code: int, text: str) -> bytes:
        return self._client.send(SERVER, Assembly(0, ConnectionClose(connection_code(code), text[:255])))

    # --- with a broker

    def log_in(self, credential: Credential | None) -> Generator[bytes, bytes, bytes]:
        broker = Connection(initial_frame_max=self._frame_max)
        broker.receive_header(CLIENT, HEADER)
        controls = AssemblyReader()
        received, output, has_opened = b"", b"", False
        while len(received) < len(HEADER):
            received += yield b""
        broker.receive_header(SERVER, received[: len(HEADER)])
        received = received[len(HEADER) :]
        while True:
            for rest, method in _methods(broker, SERVER, received, controls):
                match method:
                    case ConnectionStart():
                        self._offer.properties = method.server_properties
                        self.sent = self._start_ok(credential)
                        output = broker.send(CLIENT, Assembly(0, self.sent))
                    case ConnectionTune():
                        output, has_opened = self._agree(broker, method), True
                    case ConnectionHeartbeat():
                        pass
                    case ConnectionOpenOk() | ConnectionRedirect():
                        return rest
                    case ConnectionClose() if has_opened:
                        return rest
                    case ConnectionClose():
                        raise BrokerRefused(f"{method.reply_code} {method.reply_text or ''}".strip())
                    case _:
                        raise BrokerRefused("it asks for more than one response to the login")
            received = yield output
            output = b""

    def _start_ok(self, credential: Credential | None) -> ConnectionStartOk:
        """Return the client's start-ok, with the credential in place of the client's own if there is one."""
        own = self._client.client
        assert own is not None
        if credential is None:
            return own
        response = f"\0{credential.user}\0{credential.password.reveal()}".encode("utf-8", "surrogateescape")
        return replace(own, mechanism="PLAIN", response=response)

    def _agree(self, broker: Connection, tune: ConnectionTune) -> bytes:
        """Answer the broker's tune with what the client has agreed to, and open its virtual host."""
        self._offer.learn_limits(Limits(tune.channel_max or 0, tune.max_frame_size or 0, tune.heartbeat_max or 0))
        agreed = self._agreed
        heartbeat = min(agreed.heartbeat or 0, tune.heartbeat_max or 0) if tune.heartbeat_max else agreed.heartbeat
        try:
            answer = broker.send(CLIENT, Assembly(0, replace(agreed, heartbeat=heartbeat)))
        except ProtocolError as error:
            raise BrokerRefused(f"it offers less than the client has agreed to: {error}") from None
        return answer + broker.send(CLIENT, Assembly(0, ConnectionOpen(self._client.virtual_host)))


def _methods(
    connection: Connection, sender: Peer, data: bytes, reader: AssemblyReader
) -> Iterator[tuple[bytes, Method]]:
    """Yield the controls of `sender` that `data` completes, each with the bytes from its last frame on."""
    frames: list[Frame] = connection.feed(sender, data)
    for place, frame in enumerate(frames):
        assembly = reader.add(frame)
        if assembly is not None:
            yield b"".join(each.raw for each in frames[place:]) + connection.readers[sender].held, assembly.method
