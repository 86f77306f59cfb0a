"""The two handshakes of a client that logs in at the proxy: with the proxy, and then of the proxy with a broker."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, NamedTuple, Protocol, TypeAlias

from amqproxy.proxy.logins.credential import Credential


class Response(NamedTuple):
    """The client's response to a mechanism: `user` and `password`, `None` if it lacks them."""

    mechanism: str
    user: str | None
    password: str | None


class VhostRequest(NamedTuple):
    """The client's request for a virtual host, and the bytes that it has sent behind it."""

    vhost: str
    behind: bytes


class Departure(NamedTuple):
    """The client's connection.close, and the answer to it; or its connection.close-ok, without one."""

    answer: bytes


ClientStep: TypeAlias = Response | VhostRequest | Departure


class Limits(NamedTuple):
    """The limits in connection.tune; the heartbeat is in seconds, and 0 means none."""

    channel_max: int
    frame_max: int
    heartbeat: int


class Offer:
    """The offers of brokers in one protocol so far, which are made to the next clients.

    `properties` are those of a broker; the limits are the smallest of all brokers, and the last heartbeat.
    """

    def __init__(self) -> None:
        self.properties: Any = None
        self._limits: Limits | None = None

    def limits(self, usual: Limits) -> Limits:
        """Return the limits for the next client: the `usual` ones before the first broker."""
        return self._limits or usual

    def learn_limits(self, found: Limits) -> None:
        """Take in the limits of a broker."""
        known = self._limits or found
        channel_max, frame_max = _least(known.channel_max, found.channel_max), _least(known.frame_max, found.frame_max)
        self._limits = Limits(channel_max, frame_max, found.heartbeat)


def _least(known: int, found: int) -> int:
    return min(known or found, found or known)


class BrokerRefused(Exception):
    """A broker has refused the proxy's login, or agreed on less than the client; the text says how."""


class ClosedByBroker(Exception):
    """A broker has refused the proxy's login or the virtual host by connection.close, in words for the client."""

    def __init__(self, code: int, reply_text: str) -> None:
        super().__init__(f"{code} {reply_text}")
        self.code = code
        self.reply_text = reply_text


class VhostDown(Exception):
    """A broker cannot open the virtual host now, though another one may."""


class LoginHandshake(Protocol):
    """The handshakes of one client in one protocol, without input or output."""

    sent: Any
    """The start-ok that the broker was sent."""

    def __init__(self, offer: Offer, initial_frame_max: int) -> None: ...

    @property
    def ERROR(self) -> type[Exception]:  # noqa: N802 - a constant of each class
        """The exception for violations of the protocol."""

    def start(self, mechanisms: Iterable[str]) -> bytes:
        """Return connection.start, the answer to the client's protocol header."""

    def receive(self, data: bytes) -> list[ClientStep]:
        """Take bytes of the client; return its steps. Raise `ERROR` for a method out of turn."""

    def tune(self) -> bytes:
        """Return connection.tune, which accepts the client's login."""

    def close(self, code: int, text: str) -> bytes:
        """Return connection.close with a reply code of 0-9-1, or b"" if the client expects none now."""

    def log_in(self, credential: Credential | None) -> Generator[bytes, bytes, bytes]:
        """Log in to a broker: yield bytes to send, be sent those received, and return its answer to connection.open.

        The answer is followed by all that the broker has sent behind it. Without a credential, the broker gets the
        client's own response. Raise `BrokerRefused`, `VhostDown`, or `ERROR` for what the broker sends.
        """
