"""What the peers of a connection say of themselves, and agree on, before it is open."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.login import user_of
from amqproxy.amqp091.methods import ConnectionOpen, ConnectionStart, ConnectionStartOk, ConnectionTuneOk, Method
from amqproxy.amqp091.wire import Table
from amqproxy.taps.record import json_mapping
from amqproxy.taps.trace.events import ConnectionOpened


class ObservedHandshake:
    """The handshake of one connection, as far as it was seen: section 2.2.4.

    `greeted_ts_ns` is when the client sent its protocol header.
    """

    __slots__ = (
        "_client_properties",
        "_mechanism",
        "_server_properties",
        "_tuned",
        "_user",
        "_virtual_host",
        "greeted_ts_ns",
    )

    def __init__(self) -> None:
        self.greeted_ts_ns: int | None = None
        self._mechanism: str | None = None
        self._user: str | None = None
        self._client_properties: Table | None = None
        self._server_properties: Table | None = None
        self._tuned: ConnectionTuneOk | None = None
        self._virtual_host: str | None = None

    def learn(self, method: Method) -> None:
        """Take a method on channel 0, of which those of the handshake matter."""
        match method:
            case ConnectionStart():
                self._server_properties = method.server_properties
            case ConnectionStartOk():
                self._client_properties, self._mechanism = method.client_properties, method.mechanism
                self._user = user_of(method)
            case ConnectionTuneOk():
                self._tuned = method
            case ConnectionOpen():
                self._virtual_host = method.virtual_host
            case _:
                pass

    def opened(self, ts_ns: int) -> ConnectionOpened:
        """The server has sent connection.open-ok."""
        tuned = self._tuned
        return ConnectionOpened(
            ts_ns=ts_ns,
            virtual_host=self._virtual_host,
            mechanism=self._mechanism,
            user=self._user,
            client_properties=_plain(self._client_properties),
            server_properties=_plain(self._server_properties),
            channel_max=tuned.channel_max if tuned else None,
            frame_max=tuned.frame_max if tuned else None,
            heartbeat=tuned.heartbeat if tuned else None,
            latency_ns=None if self.greeted_ts_ns is None else ts_ns - self.greeted_ts_ns,
        )


def _plain(table: Table | None) -> dict[str, Any] | None:
    return None if table is None else json_mapping(table.values_by_name)
