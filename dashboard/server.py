"""The uvicorn server with the dashboard's application, as run by `amqproxy dashboard`."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Callable
from contextlib import suppress

import uvicorn

from amqproxy.dashboard.app import create_app
from amqproxy.dashboard.settings import Settings
from amqproxy.process.log import logger
from amqproxy.web import server_log
from amqproxy.web.child import SHUTDOWN_SECONDS
from amqproxy.web.peers import Peers
from amqproxy.web.protocols import protocols

MAX_REQUEST_HEADERS = 64 * 1024

NICENESS = 5
"""Niceness of the process: on a busy machine the proxy has priority, and the dashboard marks traffic that it skips."""

MAX_FILES = 16_384
"""Open files to allow, if the system's hard limit permits."""


class Unsafe(ValueError):
    """The settings are unsafe or contradictory; the text names the remedy."""


def serve(
    settings: Settings, ready: Callable[[str], None] | None = None, *, listener: socket.socket | None = None
) -> None:
    """Serve until a signal; `ready` is first called with the URL. `Unsafe`; `OSError` if it cannot listen.

    A `listener` was opened by the parent proxy, which has logged its address.
    """
    problem = settings.problem()
    if problem is not None:
        raise Unsafe(problem)
    os.nice(NICENESS)
    _allow_files()
    server_log.take_over("dashboard")
    if listener is not None:
        _run(settings, listener)
        return
    listener = _listener(settings)
    with listener:
        url = url_of(settings, listener.getsockname()[1])
        logger().info("dashboard", address=url)
        if ready is not None:
            ready(url)
        _run(settings, listener)


def url_of(settings: Settings, port: int) -> str:
    """Return the dashboard's URL for browsers."""
    scheme = "http" if settings.certificate is None else "https"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{scheme}://{host}:{port}/"


def _run(settings: Settings, listener: socket.socket) -> None:
    uvicorn.Server(_config(settings)).run([listener])


def _allow_files() -> None:
    """Raise the limit on open files: each browser takes one, and each request to a proxy another."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if most == resource.RLIM_INFINITY else min(most, MAX_FILES)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def _config(settings: Settings) -> uvicorn.Config:
    peers = Peers()
    http, ws = protocols(peers)
    return uvicorn.Config(
        create_app(settings, peers),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        http=http,
        ws=ws,
        ws_max_size=64 * 1024,
        ws_per_message_deflate=False,  # connections are usually local, and compression would take most of the time
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        h11_max_incomplete_event_size=MAX_REQUEST_HEADERS,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
        lifespan="on",
    )


def _listener(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
        listener.listen(256)
    except OSError:
        listener.close()
        raise
    return listener
