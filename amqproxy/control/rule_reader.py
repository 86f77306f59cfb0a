"""Reading of rules from requests: each in a thread with a deadline, after which the thread is stopped."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import trio

from amqproxy.control.request_error import RequestError

R = TypeVar("R")

READ_SECONDS = 10.0
"""Seconds in which rules must be read: 5,000 take 3 s. Clients wait 30 s: two bad requests may precede theirs."""

MAX_STUCK = 5
"""Threads that may outlive their deadline, in a C call that cannot be interrupted."""


class ReadingStopped(BaseException):
    """Raised within a thread whose deadline has passed: a script cannot catch it as an `Exception`."""


class RuleReader:
    """Reader of rules in threads, one request at a time in order; a request past its deadline does not block the next.

    Each may take `seconds`, `READ_SECONDS` by default.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = READ_SECONDS if seconds is None else seconds
        self._turn = trio.Lock()
        self._stuck = trio.CapacityLimiter(MAX_STUCK)

    async def read(self, read: Callable[[], R]) -> R:
        """Return what `read` returns. `RequestError`: `too-slow` past the deadline, `busy` at `MAX_STUCK` threads."""
        async with self._turn:
            if not self._stuck.available_tokens:
                raise RequestError("busy", f"{MAX_STUCK} readings of rules cannot be stopped: restart the proxy")
            reading = _Reading(read)
            try:
                with trio.move_on_after(self._seconds):
                    return await trio.to_thread.run_sync(reading, limiter=self._stuck, abandon_on_cancel=True)
            finally:
                reading.stop()
        raise RequestError(
            "too-slow", f"the rules take more than {self._seconds:g} s to read: shorten them or their scripts"
        )


class _Reading(Generic[R]):
    """A call in a thread that another thread can stop."""

    def __init__(self, read: Callable[[], R]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._is_stopped = False

    def __call__(self) -> R:
        with self._lock:
            if self._is_stopped:
                raise ReadingStopped
            self._thread = threading.get_ident()
        try:
            return self._read()
        finally:
            with self._lock:
                self._thread = None

    def stop(self) -> None:
        """End the call at its next bytecode; no effect once it has ended."""
        with self._lock:
            self._is_stopped = True
            if self._thread is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread), ctypes.py_object(ReadingStopped)
                )
