"""A trio loop in a separate thread, for programs and tests without trio, or with another event loop."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, suppress
from typing import Generic, TypeVar

import trio

Value = TypeVar("Value")
Answer = TypeVar("Answer")


class TrioThread(Generic[Value]):
    """Thread with a trio loop that keeps the context manager of `enter` open from `start` to `stop`.

    `call` and `run` execute code in this thread.
    """

    def __init__(self, enter: Callable[[], AbstractAsyncContextManager[Value]], name: str) -> None:
        self._enter = enter
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._opened: Future[Value] = Future()
        self._ended: Future[None] = Future()
        self._token: trio.lowlevel.TrioToken | None = None
        self._is_over = trio.Event()

    def start(self) -> Value:
        """Return the value of the context manager; raise its error, and then there is nothing to stop."""
        self._thread.start()
        try:
            return self._opened.result()
        except Exception:
            self._thread.join()
            raise

    @property
    def value(self) -> Value:
        """Value of the context manager. It belongs to the other thread: use it only through `call`."""
        return self._opened.result()

    def call(self, function: Callable[[], Answer]) -> Answer:
        """Call `function` in the loop's thread, and return its result or raise its error; nothing else runs there
        meanwhile.

        May be called in any thread, even in one that runs a loop itself: that loop waits.
        """
        assert self._token is not None, "started"
        answer: Future[Answer] = Future()

        def run() -> None:
            try:
                answer.set_result(function())
            except BaseException as error:  # noqa: BLE001 - the caller's
                answer.set_exception(error)

        self._token.run_sync_soon(run)
        return answer.result()

    def run(self, function: Callable[[], Awaitable[Answer]]) -> Answer:
        """Like `call`, for an async function, while other tasks continue."""
        assert self._token is not None, "started"
        answer: Future[Answer] = Future()

        async def run() -> None:
            try:
                answer.set_result(await function())
            except Exception as error:  # noqa: BLE001 - the caller's
                answer.set_exception(error)
            except BaseException:
                answer.set_exception(trio.RunFinishedError("the loop has ended"))
                raise

        self._token.run_sync_soon(trio.lowlevel.spawn_system_task, run)
        return answer.result()

    def stop(self) -> None:
        """Close the context manager, and wait for the end of the thread; raise the error of its run."""
        if self._thread.is_alive() and self._token is not None:
            with suppress(trio.RunFinishedError):  # ended by itself; the reason is raised below
                self._token.run_sync_soon(self._is_over.set)
        self._thread.join()
        self._ended.result()

    def _run(self) -> None:
        try:
            trio.run(self._stay_open)
        except BaseException as error:  # noqa: BLE001 - for the code that waits for this thread
            failed: Future[Value] | Future[None] = self._ended if self._opened.done() else self._opened
            failed.set_exception(error)
        else:
            self._ended.set_result(None)

    async def _stay_open(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with self._enter() as value:
            self._opened.set_result(value)
            await self._is_over.wait()
