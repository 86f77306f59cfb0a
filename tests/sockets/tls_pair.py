"""Two ends of a connection over TLS, after their handshake."""

import atexit
import functools
import socket
import ssl
import tempfile
from contextlib import suppress
from pathlib import Path

from amqproxy.configuration.tls_config import ClientTLS, ServerTLS
from amqproxy.sockets.tls import client_context, server_context
from amqproxy.sockets.tls_socket import TlsSocket, secured
from tests.sockets.certificate_files import Files


@functools.cache
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Contexts of a server and of a client that trust each other's certificates."""
    directory = tempfile.TemporaryDirectory()
    atexit.register(directory.cleanup)
    files = Files(Path(directory.name))
    server = server_context(ServerTLS(certificate=files.server, key=files.server_key))
    return server, client_context(ClientTLS(ca=files.ca))


def tls_pair(ends: tuple[socket.socket, socket.socket] | None = None) -> tuple[TlsSocket, TlsSocket]:
    """The server's and the client's socket, over these ends of a connection or those of a new one."""
    ends = socket.socketpair() if ends is None else ends
    for end in ends:
        end.setblocking(False)
    server, client = contexts()
    ours = secured(ends[0], server, server_side=True)
    theirs = secured(ends[1], client, server_hostname="localhost")
    left = {ours, theirs}
    while left:
        for each in list(left):
            with suppress(ssl.SSLWantReadError):
                each.do_handshake()
                left.discard(each)
    return ours, theirs
