"""One shovel of a shovel process: its runs one after another, with RabbitMQ's reconnect-delay between them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from amqproxy.process.supervision import describe
from amqproxy.shovels.openings import Openings
from amqproxy.shovels.shovel_forwarder import ShovelForwarder
from amqproxy.shovels.shovel_messages import CountsReport, ShovelCounts, ShovelState, StartShovel
from amqproxy.shovels.shovel_run import OpenLocalConnection, ShovelFailed, ShovelRun


class ShovelTask:
    """The shovel of a command, which begins once the task `after` has ended; `report` is told its states.

    Its counts go on over all its runs.
    """

    def __init__(
        self,
        command: StartShovel,
        open_local: OpenLocalConnection,
        report: Callable[[ShovelState | CountsReport], Awaitable[None]],
        after: ShovelTask | None,
    ) -> None:
        self.number = command.number
        self.name = (command.shovel.vhost, command.shovel.name)
        self.scope = trio.CancelScope()
        self._command = command
        self._open_local = open_local
        self._report = report
        self._after = after
        self._is_over = trio.Event()
        self._run: ShovelRun | None = None
        self._earlier = (0, 0, 0)
        """Messages that earlier runs have forwarded, moved and got back."""
        self._remaining: int | None = None
        """Messages that the last run that has consumed has left; a run may fail before it consumes."""

    @property
    def counts(self) -> ShovelCounts | None:
        """The counts of a shovel that has run."""
        forwarder = self._forwarder
        if forwarder is None:
            return None
        forwarded, moved, refused = self._earlier
        return ShovelCounts(
            self.number,
            forwarded + forwarder.forwarded,
            moved + forwarder.moved,
            refused + forwarder.refused,
            forwarder.remaining,
            forwarder.unpublished,
            forwarder.is_blocked,
        )

    @property
    def _forwarder(self) -> ShovelForwarder | None:
        return None if self._run is None else self._run.forwarder

    def stop(self) -> None:
        """End the task; its connections are closed in order."""
        self.scope.cancel()

    async def run(self, openings: Openings) -> None:
        """Run until the shovel is stopped, has moved all its messages, or fails without being started again."""
        try:
            if self._after is not None:  # also if this one is stopped: the next one waits only for this one
                with trio.CancelScope(shield=True):
                    await self._after._is_over.wait()
                self._after = None
            with self.scope:
                await self._run_again_and_again(openings)
        finally:
            self._is_over.set()

    async def _run_again_and_again(self, openings: Openings) -> None:
        pause = self._command.pause
        while True:
            await trio.sleep(pause)
            pause = self._command.shovel.reconnect_delay
            if await self._run_once(openings) or not pause:
                return

    async def _run_once(self, openings: Openings) -> bool:
        """Run once; return whether all messages are moved."""
        await self._report(ShovelState(self.number, "starting"))
        before = self._forwarder
        if before is not None:
            forwarded, moved, refused = self._earlier
            self._earlier = (forwarded + before.forwarded, moved + before.moved, refused + before.refused)
            self._remaining = before.remaining
        self._run = run = ShovelRun(self._command.shovel, self._open_local, self._note_running, self._remaining)
        try:
            await run.run(openings)
        except ShovelFailed as error:
            end = ShovelState(self.number, "terminated", error.reason, readable(error.cause))
        except Exception as error:  # noqa: BLE001 - it ends this shovel, and no other of the process
            end = ShovelState(self.number, "terminated", "needed a restart", readable(describe(error)))
        else:
            end = ShovelState(self.number, "is-over")
        await self._report_counts()  # the broker does not note any of a shovel that is over
        await self._report(end)
        return end.state == "is-over"

    async def _note_running(self, source_uri: str, destination_uri: str) -> None:
        await self._report_counts()  # the number of messages to move is known now
        uris = {"source_uri": source_uri, "destination_uri": destination_uri}
        await self._report(ShovelState(self.number, "running", **uris))

    async def _report_counts(self) -> None:
        counts = self.counts
        if counts is not None:
            await self._report(CountsReport([counts]))


def readable(text: str) -> str:
    """Return a text as UTF-8 can encode it: RabbitMQ cuts its reply texts within a character."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
