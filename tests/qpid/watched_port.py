"""A port that leads to a broker's, where a `Connection` of AMQP 0-10 watches what both peers send."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from amqproxy.amqp010.connection import Connection
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.protocol_header import SIZE
from amqproxy.peer import CLIENT, SERVER, Peer


class WatchedPort:
    """Relays each client to the broker at `broker_port`, byte for byte, until it is closed."""

    def __init__(self, broker_port: int) -> None:
        self._broker_port = broker_port
        self._connections: list[_WatchedConnection] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # so that nothing waits for clients any more
        self._thread.join()
        self._listener.close()
        for each in self._connections:
            each.close()

    def broken_rules(self) -> set[str]:
        """The sections of the specification that any peer has broken."""
        return {error.section or str(error) for each in self._connections for error in each.errors}

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                connection = _WatchedConnection(client, self._broker_port)
                self._connections.append(connection)
                connection.start()


class _WatchedConnection:
    def __init__(self, client: socket.socket, broker_port: int) -> None:
        self.errors: list[ProtocolError] = []
        self._sockets = {CLIENT: client, SERVER: socket.create_connection(("127.0.0.1", broker_port))}
        self._connection = Connection(deviations=self.errors)
        self._headers = dict.fromkeys(Peer, b"")
        self._lock = threading.Lock()
        self._is_watching = True
        self._threads = [threading.Thread(target=self._carry, args=(sender,), daemon=True) for sender in Peer]

    def start(self) -> None:
        for each in self._threads:
            each.start()

    def close(self) -> None:
        for each in self._sockets.values():
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in self._sockets.values():
            each.close()

    def _carry(self, sender: Peer) -> None:
        source, target = self._sockets[sender], self._sockets[sender.other]
        with suppress(OSError):
            while data := source.recv(65_536):
                with self._lock:
                    self._see(sender, data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def _see(self, sender: Peer, data: bytes) -> None:
        if not self._is_watching:
            return
        try:
            missing = SIZE - len(self._headers[sender])
            if missing:
                self._headers[sender] += data[:missing]
                if len(self._headers[sender]) == SIZE:
                    self._connection.receive_header(sender, self._headers[sender])
            self._connection.feed(sender, data[missing:])
        except ProtocolError as error:
            self._is_watching = False
            self.errors.append(error)
