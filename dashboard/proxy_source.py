"""A proxy as a source: its packets, and its counters once a second, through its control socket."""

from __future__ import annotations

import asyncio
import time
from binascii import a2b_base64
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from amqproxy.capture.packet_decoder import PacketDecoder
from amqproxy.capture.warnings import CaptureError
from amqproxy.control import AsyncControlClient, RequestError
from amqproxy.control.proxy_requests import ProxyRequests
from amqproxy.dashboard.feed_pace import FeedPace
from amqproxy.dashboard.missing_frames import MissingFrames
from amqproxy.dashboard.proxy_sample import proxy_sample
from amqproxy.dashboard.source import Source, SourceState
from amqproxy.process.supervision import contained, describe
from amqproxy.taps.findings.finding import Finding
from amqproxy.top.samples import Sample

CREDIT = 4
"""Batches that a proxy may send before the dashboard has decoded the earlier ones."""

MAX_AGE = 10.0
"""Age in seconds beyond which the proxy skips packets that it could not send.

A busy machine may suspend the dashboard for a second or two. Traffic that is too fast for the dashboard leaves the
proxy's ring sooner anyway.
"""

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0
"""First and longest pause in seconds before reconnecting to a proxy; it doubles after each short connection."""

SAMPLE_SECONDS = 1.0

MAX_NAMES, MAX_NAME = 200, 200
"""Maximum number of the request names, and of the listeners, that a proxy reports, and their maximum length."""

RESTARTED = "the proxy was restarted"
TOO_MUCH = "more passed than the dashboard could show"
LOST = "the dashboard lost its connection to the proxy"


class ProxySource(Source):
    """The proxy whose control socket is at `path`; its source reconnects whenever the connection is lost."""

    kind = "proxy"
    has_row_for_missing = True

    def __init__(self, id: int, path: Path, memory: int, on_change: Callable[[], None]) -> None:
        super().__init__(id, path.stem or str(path), memory, on_change, is_live=True)
        self.path = path
        self.requests: ProxyRequests = ProxyRequests(path)
        self.counter_requests = ProxyRequests(path)
        """Requests for counters, separate so that they do not wait for those of browsers."""
        self._is_following = False
        self._missing = 0
        """Lost frames that have no row."""
        self._process: tuple[int, float] | None = None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            group.create_task(self._sample())
            group.create_task(self._look())

    # --- packets

    async def _follow(self) -> None:
        """Read packets, and reconnect after each failure."""
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
                self._note_gap(MissingFrames(time.time_ns(), None, LOST))
                self.ring.notify()
            self.become(SourceState.CONNECTING if self._process is None else SourceState.RETRYING, reason)
            pause = FIRST_PAUSE if time.monotonic() - began > LONGEST_PAUSE else min(2 * pause, LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _read(self, client: AsyncControlClient) -> None:
        """Subscribe to packets, and take them until the connection ends."""
        await self._greet(client)
        decoder = PacketDecoder()
        pace = FeedPace()
        await self._subscribe(client)
        self._is_following = True
        self.sample = None
        self.become(SourceState.LIVE)
        async for event in client.events():
            match event.get("event"):
                case "packets":
                    self._note_missing()
                    before = self.ring.next_seq
                    pace.took += await self.take(decoder.feed(a2b_base64(event["data"], strict_mode=True)))
                    pace.shown += self.ring.next_seq - before
                case "finding":
                    self.observed.take_finding(msgspec.convert(event["record"], Finding))
                case "lost":
                    self.lost += event["count"]
                    self.observed.minutes.at(time.time_ns()).is_whole = False
                    if self.sample is None:  # otherwise there would be a row for a gap every moment
                        self._missing += event["count"]
                    pace.lost += event["count"]
                case "findings-lost":
                    self.lost_findings += event["count"]
                case "sample":
                    self._set_sample(event)
                case "batch":
                    await asyncio.sleep(pace.pause())
                    max_age = pace.max_age(float(event.get("behind", 0)), self.ring.next_seq + self.lost)
                    await client.send("more", credit=1, **({} if max_age is None else {"max_age": max_age}))
                case _:
                    if event.get("ok") is False:
                        raise RequestError(str(event.get("error")), str(event.get("text")))

    async def _subscribe(self, client: AsyncControlClient) -> None:
        """Ask for packets and findings, and at the first connection for earlier traffic, which the ring has later."""
        keys: dict[str, Any] = {"packets": True, "findings": True, "credit": CREDIT, "max_age": MAX_AGE}
        wishes: list[dict[str, str]] = [{"legs": "once", "from": "start"}, {"legs": "once"}, {}]
        for more in wishes[1:] if self.ring.next_seq else wishes:
            try:
                await client.ask("subscribe", **keys, **more)
                return
            except RequestError as error:
                if not more or error.name not in ("no-ring", "malformed"):  # "malformed": an older proxy lacks a key
                    raise

    def _set_sample(self, event: dict[str, Any]) -> None:
        """Keep how many of the connections with traffic the proxy shows, since more passes than can be shown."""
        shown, of = event.get("shown"), event.get("of")
        self.sample = (int(shown), int(of)) if isinstance(shown, int) and isinstance(of, int) else None
        self.changed()

    def _note_missing(self) -> None:
        """Append a row for lost frames, before the rows of later traffic."""
        missing, self._missing = self._missing, 0
        if missing:
            self.observed.lose(time.time_ns())
            self._note_gap(MissingFrames(time.time_ns(), missing, TOO_MUCH))

    def _note_gap(self, missing: MissingFrames) -> None:
        """Append one row for lost frames of all connections to the frames and to the messages."""
        self.observed.take(self.ring.append(missing))

    async def _greet(self, client: AsyncControlClient) -> None:
        """Ask the proxy for its version, requests and listeners, and detect whether it was restarted."""
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

    # --- counters

    async def _sample(self) -> None:
        """Add a sample of the counters every `SAMPLE_SECONDS`."""
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
        """Report overdue messages every `SAMPLE_SECONDS`."""
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            with contained("open messages not reported", source=self.name):
                for _ in self.observed.look(time.time_ns()):
                    await asyncio.sleep(0)
            self.ring.notify()
