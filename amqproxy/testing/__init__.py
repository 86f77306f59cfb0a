"""A broker and a proxy for tests, which record a program's traffic, and inject faults. See docs/testing.md.

- `plugin`: the pytest fixtures. It imports nothing else before a test uses one.
- `local_broker`: the integrated broker on a free loopback port, in a separate thread, which can be restarted.
- `local_proxy`: the proxy in front of a broker, in a separate thread, with the assertions of tests.
- `in_memory_recorder`: keeps messages with their outcomes, findings, and frames.
- `messages`: the list of messages, with filters; `record_filter` is the filter.
- `active_rules`: the rules that are in force while a `with` block runs.
- `trace_text`: the latest traffic, as lines for people.

Without pytest: `with LocalBroker() as broker, LocalProxy(broker.address) as proxy: ...`.

Imports: `amqproxy.broker`, `amqproxy.proxy`, `amqproxy.control.hub`, `amqproxy.configuration`, `amqproxy.taps`, trio.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amqproxy.testing.local_broker import LocalBroker
    from amqproxy.testing.local_proxy import LocalProxy
    from amqproxy.testing.messages import Messages

__all__ = ["LocalBroker", "LocalProxy", "Messages"]

_MODULES = {"LocalBroker": "local_broker", "LocalProxy": "local_proxy", "Messages": "messages"}


def __getattr__(name: str) -> Any:
    """Import a module on first use, since pytest imports this package in every run."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
