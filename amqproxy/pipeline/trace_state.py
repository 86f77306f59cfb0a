"""State of a chain between runs: partly reassembled streams, and the traces of open connections.

The state of a chain consists of several byte strings: one shared by its connections, and one per connection. Each
begins with a line that identifies its writer; a state of another version is not read, but raises `Unreadable`. The
states are pickles, from which only classes of the reader, trace and detectors are loaded: nothing else can be called.
"""

from __future__ import annotations

import io
import pickle
import re
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import version
from types import MethodType
from typing import Any

from amqproxy.compiled._pure import is_compiled
from amqproxy.taps.findings.inspector import added

FORMAT = 8
"""Format number, to be raised with each change of the state."""

_MODULES = (
    "amqproxy.amqp",
    "amqproxy.capture.amqp",
    "amqproxy.capture.conversation",
    "amqproxy.capture.decode",
    "amqproxy.capture.endpoints",
    "amqproxy.capture.fragments",
    "amqproxy.capture.packets",
    "amqproxy.capture.reassembly",
    "amqproxy.capture.stream_events",
    "amqproxy.capture.unreadable_bytes",
    "amqproxy.peer",
    "amqproxy.pipeline.body_fields",
    "amqproxy.pipeline.event_rows",
    "amqproxy.pipeline.pending_rows",
    "amqproxy.taps.amqp",
    "amqproxy.taps.findings.",
    "amqproxy.taps.note",
    "amqproxy.taps.observer",
    "amqproxy.taps.session_trace",
    "amqproxy.taps.trace.",
)
"""Prefixes of the modules of all classes in states; `amqp` begins the packages of the protocols."""

_OTHERS = frozenset(
    (
        ("array", "_array_reconstructor"),
        ("array", "array"),
        ("builtins", "bytearray"),
        ("builtins", "frozenset"),
        ("builtins", "range"),
        ("builtins", "set"),
        ("collections", "Counter"),
        ("collections", "OrderedDict"),
        ("collections", "deque"),
        ("copyreg", "__newobj__"),
        ("decimal", "Decimal"),
        ("msgspec._core", "rebuild"),
        ("msgspec._utils", "rebuild"),
        ("uuid", "SafeUUID"),
        ("uuid", "UUID"),
    )
)
_SHARES = re.compile(rb" share \d+/(\d+)$")
_METHODS = frozenset(("_inspect", "_is_early", "_missing"))
"""Bound methods that may occur in states."""


class Unreadable(Exception):
    """Raised for a state that is damaged, or was written by another version."""


@cache
def written_by(share: str) -> bytes:
    """Return the first line of each state: its writer, and the share of the chain."""
    form = "compiled" if is_compiled("amqproxy.capture.decode") else "plain"
    python = ".".join(map(str, sys.version_info[:2]))
    return f"amqproxy {version('amqproxy')} state {FORMAT} {form} Python {python} share {share}\n".encode()


def shares_of(state: bytes) -> int:
    """Return the number of shares of a state's chain, 1 if it is not a state."""
    found = _SHARES.search(state.partition(b"\n")[0])
    return int(found[1]) if found else 1


def dumped(value: object, head: bytes, outer: Mapping[str, object]) -> bytes:
    """Return a value after its first line; the objects in `outer` are stored by name."""
    buffer = io.BytesIO()
    buffer.write(head)
    _Pickler(buffer, outer).dump(value)
    return buffer.getvalue()


def loaded(state: bytes, head: bytes, outer: Mapping[str, object]) -> Any:
    """Return the value, with the objects in `outer` in place of their names; raise `Unreadable`."""
    if not state.startswith(head):
        found = state.partition(b"\n")[0][:100].decode(errors="replace")
        raise Unreadable(f"it was written by {found or 'nothing'!r}, and this is {head.decode().strip()!r}")
    buffer = io.BytesIO(state)
    buffer.seek(len(head))
    try:
        return _Unpickler(buffer, outer).load()
    except Unreadable:
        raise
    except Exception as error:  # noqa: BLE001 - damaged bytes may raise anything
        raise Unreadable(f"it is damaged: {error!r}") from None


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, outer: Mapping[str, object]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._names = {id(value): name for name, value in outer.items()}

    def persistent_id(self, value: Any) -> str | None:
        return self._names.get(id(value))

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, MethodType):
            return _bound, (value.__self__, value.__name__)
        if type(value).__name__ == "Tally":  # counters, unused for captures, in memory that cannot be pickled
            return type(value), ()
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, outer: Mapping[str, object]) -> None:
        super().__init__(file)
        self._outer = outer

    def persistent_load(self, name: str) -> object:
        return self._outer[name]

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _OTHERS:
            return getattr(import_module(module), name)
        if (module, name) == (__name__, "_bound"):
            return _bound
        if module.startswith(_MODULES) or module in {each.__module__ for each in added()}:
            found: Any = import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
            if getattr(found, "__module__", None) == module and _is_harmless(found, name):
                return found
        raise Unreadable(f"it names {module}.{name}, which is never carried")


def _is_harmless(found: Any, name: str) -> bool:
    """Whether it is a class, a function that passes events to a detector, or Cython's unpickling function."""
    return isinstance(found, type) or hasattr(found, "events") or name.startswith("__pyx_unpickle_")


def _bound(owner: object, name: str) -> Any:
    if name not in _METHODS:
        raise Unreadable(f"it names a method {name}, which is never carried")
    return getattr(owner, name)
