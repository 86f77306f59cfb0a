"""What watches peers of 0-10 notes the rules that they break, and changes nothing."""

import socket

from amqproxy.amqp010.controls import ConnectionStart
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp010.protocol_header import HEADER
from tests.qpid.watched_port import WatchedPort
from tests.real.poll import until


def test_rules_are_noted_and_bytes_pass() -> None:
    with socket.create_server(("127.0.0.1", 0)) as broker:
        watched = WatchedPort(broker.getsockname()[1])
        with socket.create_connection(("127.0.0.1", watched.port)) as client:
            server, _ = broker.accept()
            with server:
                client.sendall(HEADER[:3])
                client.sendall(HEADER[3:])
                assert server.recv(8, socket.MSG_WAITALL) == HEADER
                start = encode_method(0, ConnectionStart())
                server.sendall(HEADER + start + start)
                assert client.recv(8 + 2 * len(start), socket.MSG_WAITALL) == HEADER + start + start
                until(lambda: watched.broken_rules() == {"9.1 connection.start"}, "the second start is noted", 10.0)
        watched.close()
