"""One browser: its WebSocket and its views.

A browser that does not read, or sends invalid requests, harms only itself: each view has two batches of credit, and
the browser is disconnected when it does not read its messages in time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from amqproxy.dashboard.finding_selection import FindingSelection
from amqproxy.dashboard.frame_selection import FrameSelection
from amqproxy.dashboard.live_view import MAX_CREDIT, FrameView, MessageView, View
from amqproxy.dashboard.message_selection import MessageSelection
from amqproxy.dashboard.selection import Place
from amqproxy.dashboard.source import Source
from amqproxy.dashboard.sources import Sources
from amqproxy.dashboard.viewer_filter import viewer_filter
from amqproxy.process.log import logger
from amqproxy.process.supervision import describe
from amqproxy.rules.matching.tokens import TextError
from amqproxy.taps.record import encoded

PACE = 0.05
"""Seconds between two rounds of batches."""

MAX_VIEWS = 16
"""Maximum number of views of one browser."""

REQUEST_SECONDS, VIEW_SECONDS = 0.002, 0.05
"""Seconds charged for a request, and for a view, whose filter has to be compiled; they limit the rate of requests."""

SAVED_SECONDS = 1.0
"""Maximum request time that a quiet browser can accumulate, in seconds."""

TURN_SECONDS = 0.016
"""Seconds for which batches are built for one browser in one round."""

SEND_TIMEOUT = 20.0
"""Seconds within which a browser has to accept a message."""

Name = Annotated[str, msgspec.Meta(max_length=64)]
Credit = Annotated[int, msgspec.Meta(ge=0, le=MAX_CREDIT)]


class ViewRequest(msgspec.Struct, frozen=True, tag_field="type", tag="view"):
    """Request to show a live list, replacing the view of the same name."""

    view: Name
    source: int
    what: Literal["frames", "messages", "findings"] = "frames"
    filter: str | None = None
    faults: bool = False
    connection: str | None = None
    channel: int | None = None
    after: int | None = None
    credit: Credit = MAX_CREDIT
    max_age: Annotated[float, msgspec.Meta(gt=0)] | None = None


class MoreRequest(msgspec.Struct, frozen=True, tag_field="type", tag="more"):
    """Credit for more batches of a view."""

    view: Name
    credit: Credit = 1


class EndRequest(msgspec.Struct, frozen=True, tag_field="type", tag="end"):
    """Request to end a view."""

    view: Name


ViewerRequest: TypeAlias = ViewRequest | MoreRequest | EndRequest

_decoder: msgspec.json.Decoder[ViewerRequest] = msgspec.json.Decoder(ViewerRequest)


class Viewer:
    """Serves one WebSocket until it is closed."""

    def __init__(self, websocket: WebSocket, sources: Sources, clock: Callable[[], float] = time.monotonic) -> None:
        self._websocket = websocket
        self._sources = sources
        self._clock = clock
        self._views: dict[str, tuple[View, int]] = {}
        self._answers: list[bytes] = []
        self._samples: dict[int, dict[str, Any]] = {}
        """The newest unsent sample of each source."""
        self._has_news = True
        self._wake = asyncio.Event()
        self._wake.set()  # the first message has the sources
        self._free_at = clock() - SAVED_SECONDS
        """Time of the next permitted request; while it is in the past, request time has accumulated."""

    async def run(self) -> None:
        """Receive requests and send their results until either side ends."""
        await self._websocket.accept()
        self._sources.listen(self._on_sources)
        self._sources.listen_to_samples(self._on_sample)
        sending = asyncio.create_task(self._send())
        receiving = asyncio.create_task(self._receive())
        try:
            await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._sources.forget(self._on_sources)
            self._sources.forget_samples(self._on_sample)
            for name in [*self._views]:
                self._end(name)
            for task in (sending, receiving):
                task.add_done_callback(_ignore_outcome)
                task.cancel()
            await self._close()

    async def _close(self) -> None:
        if self._websocket.application_state is WebSocketState.CONNECTED:
            try:
                async with asyncio.timeout(1):
                    await self._websocket.close()
            except (RuntimeError, WebSocketDisconnect, TimeoutError):
                pass  # already closed

    # --- requests of the browser

    async def _receive(self) -> None:
        while True:
            try:
                text = await self._websocket.receive_text()
            except (WebSocketDisconnect, KeyError, RuntimeError):  # KeyError: a message of bytes
                return
            request = self._decoded(text)
            await self._pace(is_view=isinstance(request, ViewRequest))
            if isinstance(request, ViewRequest) and request.filter and request.what != "findings":
                failure = await self._compiled(request.filter)
                if failure is not None:
                    self._end(request.view)
                    text, at = str(failure), failure.at
                    self._answer({"type": "view", "view": request.view, "ok": False, "text": text, "at": at})
                    request = None
            if request is not None:
                self._take(request)
            self._wake.set()

    async def _pace(self, *, is_view: bool) -> None:
        """Wait until the browser has earned the time of this request."""
        now = self._clock()
        self._free_at = max(self._free_at, now - SAVED_SECONDS) + (VIEW_SECONDS if is_view else REQUEST_SECONDS)
        await asyncio.sleep(max(0.0, self._free_at - now))

    async def _compiled(self, expression: str) -> TextError | None:
        """Compile a filter in a thread, so that the view finds it cached; return its error, `None` if it is valid."""
        async with self._sources.compiling:
            try:
                await asyncio.to_thread(viewer_filter, expression)
            except TextError as error:
                return error
        return None

    def _decoded(self, text: str) -> ViewerRequest | None:
        try:
            return _decoder.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            self._answer({"type": "error", "text": f"not understood: {error}"})
            return None

    def _take(self, request: ViewerRequest) -> None:
        match request:
            case ViewRequest():
                self._start(request)
            case MoreRequest():
                view = self._views.get(request.view)
                if view is not None:
                    view[0].grant(request.credit)
            case EndRequest():
                self._end(request.view)

    def _start(self, request: ViewRequest) -> None:
        self._end(request.view)
        failure = {"type": "view", "view": request.view, "ok": False}
        source = self._sources.sources.get(request.source)
        if source is None:
            self._answer({**failure, "text": f"there is no source {request.source}"})
            return
        if len(self._views) >= MAX_VIEWS:
            self._answer({**failure, "text": f"{MAX_VIEWS} views are open already"})
            return
        try:
            view = self._view(source, request)
        except TextError as error:
            self._answer({**failure, "text": str(error), "at": error.at})
            return
        self._views[request.view] = (view, request.source)
        source.ring.listen(self._wake.set)
        self._answer({"type": "view", "view": request.view, "ok": True})

    def _view(self, source: Source, request: ViewRequest) -> View:
        place = Place(connection=request.connection, channel=request.channel)
        observed, after, credit, age = source.observed, request.after, request.credit, request.max_age
        client_of = observed.connections.client_of
        if request.what == "frames":
            frames = FrameSelection(request.filter, place, client_of, faults=request.faults)
            return FrameView(
                source.ring, source.shared_rows, frames, after, credit=credit, max_age=age, clock=self._clock
            )
        if request.what == "findings":
            words = FindingSelection(request.filter, place)
            return MessageView(observed.findings, words, after, credit=credit, max_age=age, clock=self._clock)
        chosen = MessageSelection(request.filter, place, client_of, faults=request.faults)
        return MessageView(observed.messages, chosen, after, credit=credit, max_age=age, clock=self._clock)

    def _end(self, name: str) -> None:
        view = self._views.pop(name, None)
        if view is not None:
            source = self._sources.sources.get(view[1])
            if source is not None:
                source.ring.forget(self._wake.set)

    def _answer(self, answer: dict[str, object]) -> None:
        self._answers.append(encoded(answer))

    def _on_sources(self) -> None:
        self._has_news = True
        self._wake.set()

    def _on_sample(self, source: int, sample: dict[str, Any]) -> None:
        self._samples[source] = sample
        self._wake.set()

    # --- messages to the browser

    async def _send(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            next_at = self._clock() + PACE
            answers, self._answers = self._answers, []
            for answer in answers:
                await self._send_one(answer)
            if self._has_news:
                self._has_news = False
                await self._send_one(encoded({"type": "sources", "sources": self._sources.describe()}))
            samples, self._samples = self._samples, {}
            for source, sample in samples.items():
                await self._send_one(encoded({"type": "sample", "source": source, **sample}))
            await self._send_batches()
            await asyncio.sleep(max(PACE / 5, next_at - self._clock()))  # yield to other tasks

    async def _send_batches(self) -> None:
        """Send a batch of each view within `TURN_SECONDS`; views that had no turn come first in the next round."""
        spent = 0.0
        for name in list(self._views):
            if name not in self._views:
                continue
            if spent > TURN_SECONDS:
                self._wake.set()
                return
            view, _ = self._views[name] = self._views.pop(name)
            async with self._sources.building:
                began = self._clock()
                batch = view.batch()
                spent += self._clock() - began
            if batch is not None:
                await self._send_one(batch.to_json(encoded(name)))
            if view.has_more and view.credit:
                self._wake.set()
            await asyncio.sleep(0)

    async def _send_one(self, message: bytes) -> None:
        async with asyncio.timeout(SEND_TIMEOUT):
            await self._websocket.send_text(message.decode())


def _ignore_outcome(task: asyncio.Task[None]) -> None:
    """Retrieve a task's exception and log it at debug level: a browser that disconnects or stalls is not an error."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logger().debug("dashboard viewer ended", reason=describe(error))
