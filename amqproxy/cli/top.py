"""`amqproxy top`: a live view of a running proxy in the terminal."""

from __future__ import annotations

import importlib.util
import sys
from typing import Annotated

from cyclopts import Parameter

from amqproxy.cli.control_connection import socket_path
from amqproxy.cli.failure import FAILED, MISUSED, Failure
from amqproxy.cli.options import Socket, SocketConfig


def top(
    *,
    socket: Socket = None,
    config: SocketConfig = None,
    interval: Annotated[float, Parameter(name=("--interval", "-n"))] = 1.0,
) -> None:
    """Watch a running proxy in the terminal: connections, channels, consumers, rates and latencies.

    Reconnects when the proxy restarts. Needs textual: pip install "amqproxy[top]".

    Parameters
    ----------
    interval
        Seconds between two updates.
    """
    if not interval > 0:
        raise Failure("top: --interval is a number of seconds above 0", MISUSED)
    path = socket_path(socket, config)
    if importlib.util.find_spec("textual") is None:
        raise Failure('top: needs textual, which is not installed: pip install "amqproxy[top]"', FAILED)
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        raise Failure("top: needs a terminal; `amqproxy control connections` prints a list once", MISUSED)
    from amqproxy.top.app import TopApp
    from amqproxy.top.proxy_source import ProxySource

    TopApp(ProxySource(path), interval).run()
