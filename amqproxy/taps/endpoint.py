"""HTTP server of /metrics, in a few threads, so that no idle or slow scraper keeps others from scraping.

Besides, /healthz answers 200 while the process runs, and /readyz 200 while it takes new clients, else 503. Any other
path is answered with 404, so that a wrong one in a scraper's configuration is noticed.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from socketserver import TCPServer, ThreadingMixIn
from typing import Any

import prometheus_client

PATIENCE = 10.0
"""Seconds that a scraper has to send its request and to read the response."""

MOST_SCRAPERS = 16
"""Limit on concurrent scrapers; a further one displaces the oldest."""

POLL_INTERVAL = 0.25
"""Seconds between two checks for scrapers that have timed out."""

Failed = Callable[[Exception], None]
"""Callback for a scrape that failed on our side."""


@contextmanager
def serve(
    registry: prometheus_client.CollectorRegistry,
    host: str,
    port: int,
    failed: Failed = lambda error: None,
    is_ready: Callable[[], bool] = lambda: True,
) -> Iterator[int]:
    """Serve `registry` on HOST:PORT within the context, and yield the port. Raises `OSError` if it cannot be bound.

    `is_ready` is whether new clients are taken; it is called in another thread.
    """
    with _MetricsServer(registry, host or "0.0.0.0", port, failed, is_ready) as server:
        thread = threading.Thread(target=server.serve_forever, args=(POLL_INTERVAL,), name="metrics", daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


class _MetricsHandler(prometheus_client.MetricsHandler):
    """One connection, which is for one request."""

    timeout = PATIENCE
    server: _MetricsServer

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        """Render the whole answer before sending it, since other scrapes wait during the rendering."""
        path = self.path.partition("?")[0]
        if path == "/healthz":
            self._send_state(True)
            return
        if path == "/readyz":
            self._send_state(self.server.is_ready())
            return
        if path != "/metrics":
            self._send(404, b"there is nothing here: metrics are at /metrics, health at /healthz and /readyz\n")
            return
        output, self.wfile = self.wfile, BytesIO()
        try:
            with self.server.rendering:
                super().do_GET()
            answer = self.wfile.getvalue()
        except Exception as error:  # noqa: BLE001 - a failure ends only its scrape
            self.server.failed(error)
            self.wfile = output
            self.send_error(500)
        else:
            self.wfile = output
            output.write(answer)

    def _send_state(self, is_good: bool) -> None:
        if is_good:
            self._send(200, b"ok\n")
        else:
            self._send(503, b"draining, or not started\n")

    def _send(self, status: int, text: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


class _MetricsServer(ThreadingMixIn, TCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self,
        registry: prometheus_client.CollectorRegistry,
        host: str,
        port: int,
        failed: Failed,
        is_ready: Callable[[], bool],
    ) -> None:
        self.failed = failed
        self.is_ready = is_ready
        self.rendering = threading.Lock()
        """Lock that admits one rendering at a time, since each takes the interpreter from the proxy."""
        self._lock = threading.Lock()
        self._began: dict[Any, float] = {}
        """Time at which each served connection was accepted, the oldest first."""
        self.address_family, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        super().__init__(address[:2], _MetricsHandler.factory(registry))  # type: ignore[arg-type]

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._began) >= MOST_SCRAPERS:
                oldest = next(iter(self._began))
                del self._began[oldest]
                _hang_up(oldest)
            self._began[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._began.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Disconnect scrapers that have timed out, even those that still send or receive."""
        due = time.monotonic() - PATIENCE
        with self._lock:
            for request in [each for each, began in self._began.items() if began < due]:
                del self._began[request]
                _hang_up(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error of a scraper that was slow, or has gone."""


def _hang_up(request: Any) -> None:
    """Shut down a connection; the thread that serves it notices, and closes it."""
    with suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)
