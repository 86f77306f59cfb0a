"""The uvicorn server with the API's application."""

from __future__ import annotations

import asyncio
import os
import socket

import uvicorn

from amqproxy.management.app import ManagementApp
from amqproxy.management.certificate_renewal import CertificateRenewal
from amqproxy.management.settings import Settings
from amqproxy.web import server_log
from amqproxy.web.child import SHUTDOWN_SECONDS
from amqproxy.web.peers import Peers
from amqproxy.web.protocols import protocols

MAX_REQUEST_HEADERS = 64 * 1024

NICENESS = 5
"""Niceness of the process: on a busy machine the broker has priority."""


def serve(settings: Settings, listener: socket.socket) -> None:
    """Serve on the listener, which the parent has opened, until a signal."""
    os.nice(NICENESS)
    server_log.take_over("management")
    asyncio.run(_serve(settings, listener))


async def _serve(settings: Settings, listener: socket.socket) -> None:
    peers = Peers()
    http, _ = protocols(peers)
    app = ManagementApp(settings)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        http=http,
        ws="none",
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        h11_max_incomplete_event_size=MAX_REQUEST_HEADERS,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
        lifespan="off",
    )
    tasks = [asyncio.create_task(peers.watch()), asyncio.create_task(app.sample())]
    config.load()
    if settings.certificate is not None and config.ssl is not None:
        renewal = CertificateRenewal(config.ssl, settings.certificate, settings.key)
        tasks.append(asyncio.create_task(renewal.run()))
    try:
        await uvicorn.Server(config).serve([listener])
    finally:
        for task in tasks:
            task.cancel()
        await app.aclose()
