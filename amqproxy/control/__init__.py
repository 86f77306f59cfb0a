"""The control socket: lets an operator, or an operator's tools, query and control a running proxy.

A `Request` (`request`) is one line of JSON, and so is each response; `docs/control.md` describes them. The
`RequestHandler` (`request_handler`) answers requests from the proxy's sessions and rules: `numbered` finds these,
`session_control` closes and pauses them, `RuleControl` (`rule_control`) replaces rules. In a broker that runs by itself
it is a `BrokerRequestHandler` (`broker_request_handler`), which lists `broker_entries`, and by `management` and
`changes` has a management API. A command that a `hold` rule is
holding is shown as a `HeldCommand` (`held_commands`); it can be released as it is, dropped, refused, or released after
a `MessagePatch` (`message_patch`). A client may follow the relayed traffic by a `Subscription` (`subscription`): to
records (`record_subscription`), or to packets (`packet_subscription`), and to the findings that a `FindingWatch`
(`finding_watch`) evaluates once for all. A `TapRing` (`tap_ring`) keeps the latest
traffic for subscribers; the `Hub` (`hub`) shows traffic to the ring and to all other taps. `WorkShare` (`work_share`)
leaves the relay most of the time.
`service` serves requests on the Unix socket (`unix_socket`). `session_entries` and `statistics` make the entries of
lists; `formatting` and `tables` format them for people.

The client library is `ControlClient` (`control_client`), `AsyncControlClient` (`async_control_client`) for asyncio, and
their `RequestError` (`request_error`); the command line uses it. Both share `client_lines`.
`ProxyRequests` (`proxy_requests`) gives each request a connection, perhaps one of the `KeptConnections`
(`kept_connections`).

Imports: `amqproxy.recording`, `amqproxy.proxy` and all below; trio in `finding_watch`, `service`,
`request_handler` and `work_share`, asyncio in `async_control_client` alone. The client library imports none of these
but asyncio.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amqproxy.control.async_control_client import AsyncControlClient
    from amqproxy.control.control_client import ControlClient
    from amqproxy.control.request_error import RequestError

__all__ = ["AsyncControlClient", "ControlClient", "RequestError"]

_MODULES = {
    "AsyncControlClient": "async_control_client",
    "ControlClient": "control_client",
    "RequestError": "request_error",
}


def __getattr__(name: str) -> Any:
    """Import a client class on first use: the proxy needs no client, and a client needs no proxy."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
