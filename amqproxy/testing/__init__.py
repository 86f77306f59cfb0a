"""A broker and a proxy for tests, which record what a program sent, and make things go wrong. See docs/testing.md.

- `plugin`: the fixtures of pytest. It imports nothing else before a test asks for one.
- `local_broker`: the integrated broker on a free loopback port, in a thread of its own, which may be restarted.
- `local_proxy`: the proxy in front of a broker, in a thread of its own, with what tests ask of it.
- `in_memory_recorder`: keeps what passes: messages with what became of them, findings, and frames.
- `messages`: the list of messages, which a filter narrows; `record_filter` is that filter.
- `active_rules`: the rules that are in force while a `with` block runs.
- `trace_text`: what passed last, as lines for a person.

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
    """Imported when it is used: pytest imports this package in every run."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
