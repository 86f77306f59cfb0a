"""A local HTTP server with scripted answers."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import parse_qs


class Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    form: dict[str, str]


class Reply(NamedTuple):
    """`size` bytes are sent behind the body; `closes` is whether the connection is closed instead of an answer."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = MappingProxyType({})
    size: int = 0
    closes: bool = False


class WebService:
    """Answers requests by `answer`, and keeps them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[Request] = []
        self.answer: Callable[[Request], Reply] = lambda _: Reply(b"allow")
        self.hang = threading.Event()
        self.hang.set()


@contextmanager
def web_service(tls: ssl.SSLContext | None = None) -> Iterator[WebService]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            form = {key: values[0] for key, values in parse_qs(body, keep_blank_values=True).items()}
            request = Request(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, form)
            service.requests.append(request)
            service.hang.wait(60)
            reply = service.answer(request)
            if reply.closes:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body) + reply.size))
            self.end_headers()
            self.wfile.write(reply.body)
            try:
                for _ in range(reply.size // 65536):
                    self.wfile.write(b"x" * 65536)
            except OSError:
                self.close_connection = True

        do_GET = do_POST  # noqa: N815 - http.server's names

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A client that has gone is no fault of this server."""

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    service = WebService(f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield service
    finally:
        service.hang.set()
        server.shutdown()
        thread.join()
        server.server_close()
