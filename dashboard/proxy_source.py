"""A proxy as a source: its packets, and a look at its counters a second, through its control socket."""

from __future__ import annotations

import asyncio
import time
from binascii import a2b_base64
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from amqproxy.capture.warnings import CaptureError
from amqproxy.control import AsyncControlClient, RequestError
from amqproxy.process.supervision import contained, describe
from amqproxy.top.samples import Sample
from dashboard.feed_pace import FeedPace
from dashboard.missing_frames import MissingFrames
from dashboard.packet_decoder import PacketDecoder
from dashboard.proxy_requests import ProxyRequests
from dashboard.proxy_sample import proxy_sample
from dashboard.source import Source, SourceState

CREDIT = 4
"""Batches that a proxy may send before what it sent was decoded."""

MAX_AGE = 10.0
"""Seconds: what a proxy could not send for so long is skipped.

A busy machine keeps us from the processor for a second or two. What comes too fast for us, the ring of the proxy does
not hold for so long anyway.
"""

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0
"""Seconds until a proxy that is gone is tried again: at first, and at most."""

SAMPLE_SECONDS = 1.0

MAX_NAMES, MAX_NAME = 200, 200
"""What a proxy says of itself: names, and the characters of each."""

RESTARTED = "the proxy was restarted"
TOO_MUCH = "more passed than the dashboard could show"
LOST = "the dashboard lost its connection to the proxy"


class ProxySource(Source):
    """The proxy whose control socket is at `path`. It is connected to again for as long as it is gone."""

    kind = "proxy"
    has_row_for_missing = True

    def __init__(self, id: int, path: Path, memory: int, on_change: Callable[[], None]) -> None:
        super().__init__(id, path.stem or str(path), memory, on_change, is_live=True)
        self.path = path
        self.requests: ProxyRequests = ProxyRequests(path)
        self.counter_requests = ProxyRequests(path)
        """Those for its counters do not wait for what browsers ask."""
        self._is_following = False
        self._missing = 0
        """Frames that were lost, of which there is no row yet."""
        self._process: tuple[int, float] | None = None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            group.create_task(self._sample())
            group.create_task(self._look())

    # --- packets

    async def _follow(self) -> None:
        """Read packets, and connect again when that ends."""
        pause = FIRST_PAUSE
        while True:
            began = time.monotonic()
            reason = "the proxy has closed the control socket"
            failures: list[Exception] = []
            with contained("source failed", source=self.name, then=failures.append):
                try:
                    async with await AsyncControlClient.connect(self.path) as client:
                        await self._read(client)
                except (RequestError, CaptureError) as error:
                    reason = str(error)
            if failures:
                reason = describe(failures[0])
            if self._is_following:
                self._is_following = False
                self.observed.note_gap(time.time_ns(), LOST)
                self._note_missing()
                self.ring.append(MissingFrames(time.time_ns(), None, LOST))
                self.ring.notify()
            self.become(SourceState.CONNECTING if self._process is None else SourceState.RETRYING, reason)
            pause = FIRST_PAUSE if time.monotonic() - began > LONGEST_PAUSE else min(2 * pause, LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _read(self, client: AsyncControlClient) -> None:
        """Read packets for as long as they come."""
        await self._greet(client)
        decoder = PacketDecoder()
        pace = FeedPace()
        keys: dict[str, Any] = {"packets": True, "credit": CREDIT, "max_age": MAX_AGE}
        try:
            # What passed before we came is shown too; but not again where we only come back.
            await client.ask("subscribe", **keys, **({} if self.ring.next_seq else {"from": "start"}))
        except RequestError as error:
            if error.name not in ("no-ring", "malformed"):  # malformed: of an older proxy
                raise
            await client.ask("subscribe", **keys)
        began_ns = time.time_ns()
        self._is_following = True
        self.become(SourceState.LIVE)
        async for event in client.events():
            match event.get("event"):
                case "packets":
                    self._note_missing()
                    before = self.ring.next_seq
                    await self.take(decoder.feed(a2b_base64(event["data"], strict_mode=True)))
                    pace.shown += self.ring.next_seq - before
                case "lost":
                    self.lost += event["count"]
                    self._missing += event["count"]
                    pace.lost += event["count"]
                case "batch":
                    await asyncio.sleep(pace.pause())
                    newest = self.ring.newest_ns
                    behind = (time.time_ns() - newest) / 1e9 if newest > began_ns else 0.0  # else it is from before
                    max_age = pace.max_age(behind)
                    await client.send("more", credit=1, **({} if max_age is None else {"max_age": max_age}))
                case _:
                    if event.get("ok") is False:
                        raise RequestError(str(event.get("error")), str(event.get("text")))

    def _note_missing(self) -> None:
        """Have a row for what was lost, before what comes next."""
        missing, self._missing = self._missing, 0
        if missing:
            self.ring.append(MissingFrames(time.time_ns(), missing, TOO_MUCH))

    async def _greet(self, client: AsyncControlClient) -> None:
        """Find out who it is: the same as before, or another."""
        hello = await client.ask("hello")
        self.version = str(hello.get("version"))[:MAX_NAME]
        self.understood = frozenset([str(each)[:MAX_NAME] for each in islice(hello.get("requests", ()), MAX_NAMES)])
        self.listeners = [str(each)[:MAX_NAME] for each in islice(hello.get("listen", ()), MAX_NAMES)]
        if "stats" not in self.understood:
            return
        process = (await client.ask("stats"))["stats"]
        which = (int(process["pid"]), float(process["started_at"]))
        if self._process is not None and which != self._process:
            self.restarts += 1
            await self.take(self.observed.connections.end_all(RESTARTED, time.time_ns()))
        self._process = which
        self.since = which[1]

    # --- figures

    async def _sample(self) -> None:
        """Look at the counters once a second."""
        before: Sample | None = None
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            try:
                after = Sample(await self.counter_requests.ask("stats"))
            except RequestError as error:
                before = None
                if self._is_following:
                    self.become(SourceState.RETRYING, str(error))
                continue
            if self._is_following:
                self.become(SourceState.LIVE)
            with contained("sample not made", source=self.name):
                if before is not None and before.process["started_at"] == after.process["started_at"]:
                    self.add_sample(proxy_sample(before, after))
            before = after

    async def _look(self) -> None:
        """Report what has been open for long."""
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            with contained("open messages not reported", source=self.name):
                for _ in self.observed.look(time.time_ns()):
                    await asyncio.sleep(0)
            self.ring.notify()
