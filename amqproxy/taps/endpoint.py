"""Serves /metrics over HTTP, in threads of prometheus_client's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import prometheus_client

PATIENCE = 10.0
"""Seconds that a scraper has to ask, and to take what it is told: one that is idle holds a thread no longer."""


@contextmanager
def serve(registry: prometheus_client.CollectorRegistry, host: str, port: int) -> Iterator[int]:
    """Serve what `registry` holds, on HOST:PORT, for the while; gives the port. `OSError` when that cannot be had."""
    server, thread = prometheus_client.start_http_server(port, host or "0.0.0.0", registry)

    class Handler(server.RequestHandlerClass):  # type: ignore[misc, name-defined]
        timeout = PATIENCE

        def handle(self) -> None:
            with suppress(OSError):  # it is slow, or has gone
                super().handle()

    server.RequestHandlerClass = Handler
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
