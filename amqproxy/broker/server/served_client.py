"""Interface of a client's connection for the connection task, independent of the protocol."""

from __future__ import annotations

from typing import Protocol

from amqproxy.broker.clients import ConnectedClient
from amqproxy.broker.connections.client_connection import Liveness
from amqproxy.broker.connections.closing import SocketClosing


class Output(Protocol):
    """Output waiting to be sent to a client."""

    def is_over(self, most: int, /) -> bool: ...


class ServedClient(ConnectedClient, Protocol):
    """One client's connection; `connections.client_connection` documents its methods."""

    is_paused: bool

    @property
    def liveness(self) -> Liveness: ...

    @property
    def output(self) -> Output: ...

    @property
    def end(self) -> SocketClosing | None: ...

    @property
    def patience(self) -> float: ...

    @property
    def is_behind(self) -> bool: ...

    @property
    def is_awaiting(self) -> bool: ...

    @property
    def waiting(self) -> int: ...

    def feed(self, data: bytes, now: float, /) -> None: ...

    def take_output(self) -> bytes: ...

    def take_pieces(self) -> list[bytes]: ...

    def sent(self, now: float, /) -> None: ...

    def cut(self, reason: str = "", /) -> None: ...

    def lose(self, now: float, /, *, is_gone: bool = True) -> None: ...

    def step_aside(self) -> None: ...
