"""The control service on its Unix socket: many clients at a time, each with bounded resources."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any, Protocol

import msgspec
import trio

from amqproxy.control.client_lines import MAX_LINE
from amqproxy.control.finding_watch import FindingReader, FindingSubscription, FindingWatch
from amqproxy.control.held_commands import HeldCommand
from amqproxy.control.hub import Hub
from amqproxy.control.packet_subscription import PacketSubscription
from amqproxy.control.record_subscription import RecordSubscription
from amqproxy.control.request import AnyRequest, More, Subscribe, WatchHeld, id_of, parse
from amqproxy.control.request_error import RequestError
from amqproxy.control.request_handler import ListResponse, Response, StreamedList
from amqproxy.control.subscription import Subscription
from amqproxy.control.tap_ring import TapRing
from amqproxy.control.work_share import WorkShare
from amqproxy.process.exception_frames import release_frames
from amqproxy.process.supervision import contained, kept_up, supervised
from amqproxy.proxy.record_source import OVERDUE_INTERVAL
from amqproxy.proxy.session.session import Session
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.record import encoded

MAX_CONTROL_CLIENTS = 64
"""Concurrent clients; others receive the error `busy`."""

MAX_EVENTS = 1_000
"""Events that wait for a watching client; more are dropped, and their number is sent."""

MAX_EVENT_BYTES = 8 * 1024 * 1024
"""Bytes of events that wait for a watching client."""

MAX_UNREAD = 32 * 1024 * 1024
"""Bytes of incomplete requests of all clients together."""

MOST_LISTED = 10_000
"""Entries of one response; the number of the others is in `left_out`."""

MOST_LISTED_BYTES = 16 * 1024 * 1024
"""Bytes of the entries of one response."""

TURN = 0.002
"""Seconds spent on the entries of a response before other tasks have their turn."""

LIVE_RING = 32 * 1024 * 1024
"""Size in bytes of the tap ring while there is a subscriber, if the config has no ring; two publishes of 10 MiB fit."""

LINE_TIMEOUT = 30.0
"""Seconds for the rest of a request after its first bytes."""

IDLE_TIMEOUT = 600.0
"""Seconds after which a client that sends no request, and does not watch, is disconnected."""

SEND_TIMEOUT = 10.0
"""Seconds for a client to read a response; after that it is disconnected."""

BATCH_SIZE = 64 * 1024
"""Approximate bytes of records that are sent at a time."""

BATCH_INTERVAL = 0.02
"""Seconds for which records are gathered once a subscriber has caught up."""

BREATHER = 1.0
"""Seconds to wait when the system has no file descriptor left for another client."""

GONE = (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError)
"""Exceptions raised when a client has closed the socket, or does not read its responses."""


class Handler(Protocol):
    """A request handler: a `RequestHandler`, or a `BrokerRequestHandler`."""

    async def answered(self, request: AnyRequest) -> Response | ListResponse | StreamedList:
        """Return the response. `RequestError` if the request cannot be carried out."""

    def held(self, session: Session, number: int, excerpt: int) -> HeldCommand | None:
        """Return the held command of that number; None if it no longer waits."""


class ControlService:
    """The server of the control socket's clients."""

    def __init__(
        self,
        handler: Handler,
        hub: Hub | None = None,
        metrics: Metrics | None = None,
        ring: int = 0,
        *,
        keeps_newest: bool = False,
    ) -> None:
        """Serve requests; with `hub` and `metrics` also subscriptions; a `ring` of that many bytes keeps past traffic.

        With `keeps_newest`, the ring keeps overwriting the oldest entries even if no subscriber reads them.
        """
        self._handler = handler
        self._hub = hub
        self._metrics = metrics
        self._clients: set[_ControlConnection] = set()
        self._keeps_ring = bool(ring)
        self._ring = TapRing(ring or LIVE_RING, may_close=not keeps_newest)
        self._followers = 0
        self._share = WorkShare()
        self._findings = None if metrics is None else FindingWatch(self._ring, metrics, self._share)
        if hub is not None and ring:
            hub.add(self._ring)

    async def run(self, listening: socket.socket) -> None:
        """Serve until cancelled."""
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
        async with trio.open_nursery() as nursery:
            if self._findings is not None:
                nursery.start_soon(kept_up, "findings not evaluated", self._findings.run)
            while True:
                pause = BREATHER
                with contained("cannot accept on the control socket"):
                    nursery.start_soon(supervised, "control connection failed", self._serve, await listener.accept())
                    pause = 0.0
                await trio.sleep(pause)

    def note_findings(self, findings: Iterable[Finding]) -> None:
        """Pass on findings about the proxy itself to the clients that read findings."""
        if self._findings is not None:
            self._findings.add(findings)

    def note_hold(self, session: Session, number: int) -> None:
        """Queue an event about a new held command for the clients that watch."""
        for client in self._clients:
            with contained("control event failed"):
                client.note_hold(session, number)

    def _has_room(self) -> bool:
        """Whether all clients' incomplete requests are within `MAX_UNREAD`."""
        return sum(client.unread for client in self._clients) <= MAX_UNREAD

    @contextmanager
    def _subscription(self, request: Subscribe, wake: Callable[[], None]) -> Iterator[Subscription]:
        """Keep a subscription while the block runs. `RequestError` with `not-observable` or `no-ring`."""
        if self._hub is None or self._metrics is None:
            raise RequestError("not-observable", "this proxy has nothing to follow")
        if request.since == "start" and not self._keeps_ring:
            raise RequestError("no-ring", "what has passed is not kept: that needs a `ring` in [control]")
        with ExitStack() as stack:
            findings = None
            if request.findings and self._findings is not None:
                findings = self._findings.join(request, wake)
                stack.callback(self._findings.leave, findings)
            subscription = _subscription(request, self._ring, self._metrics, wake, findings)
            stack.callback(subscription.close)
            stack.enter_context(self._fed_ring(self._hub))
            yield subscription

    @contextmanager
    def _fed_ring(self, hub: Hub) -> Iterator[None]:
        """Show traffic to the ring while the block runs; one that is configured sees it always."""
        self._followers += 1
        try:
            if self._followers == 1 and not self._keeps_ring:
                hub.add(self._ring)
            yield
        finally:
            self._followers -= 1
            if not self._followers and not self._keeps_ring:
                hub.remove(self._ring)
                self._ring.clear()

    async def _serve(self, stream: trio.SocketStream) -> None:
        client = _ControlConnection(stream, self._handler, self._has_room, self._subscription, self._share)
        async with stream:
            with contained("control request failed"):
                if len(self._clients) >= MAX_CONTROL_CLIENTS:
                    with suppress(*GONE):
                        await client.send_response(
                            _error_response(
                                None, RequestError("busy", f"{MAX_CONTROL_CLIENTS} clients are connected already")
                            )
                        )
                    return
                self._clients.add(client)
                try:
                    await client.run()
                finally:
                    self._clients.remove(client)
                    client.close()


def _subscription(
    request: Subscribe, ring: TapRing, metrics: Metrics, wake: Callable[[], None], findings: FindingReader | None
) -> Subscription:
    """Return the subscription that a client asks for."""
    if request.packets:
        return PacketSubscription(request, ring, metrics, wake, findings)
    if findings is not None and not request.messages:
        return FindingSubscription(request, wake, findings)
    return RecordSubscription(request, ring, metrics, wake, findings)


class _ControlConnection:
    """One client of the control socket: its requests in order, and its events."""

    def __init__(
        self,
        stream: trio.SocketStream,
        handler: Handler,
        has_room: Callable[[], bool],
        subscribe: Callable[[Subscribe, Callable[[], None]], AbstractContextManager[Subscription]],
        share: WorkShare,
    ) -> None:
        self._share = share
        self._stream = stream
        self._handler = handler
        self._has_room = has_room
        self._subscribe = subscribe
        self._subscription: Subscription | None = None
        self._stack = ExitStack()
        self._lock = trio.Lock()
        self._unread = bytearray()
        self._excerpt: int | None = None
        self._lost = 0
        self._events: deque[bytes] = deque()
        self._events_size = 0
        self._something = trio.Event()

    @property
    def unread(self) -> int:
        """Bytes of an incomplete request."""
        return len(self._unread)

    def close(self) -> None:
        """End the subscription of a client that is gone."""
        self._stack.close()
        self._subscription = None

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for task in (self._serve_requests, self._send_events, self._report_overdue):
                nursery.start_soon(self._until_gone, task, nursery.cancel_scope)

    async def _until_gone(self, task: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
        """Run one of the tasks; when it ends, or the client is gone, cancel the others."""
        try:
            await task()
        except GONE as error:
            release_frames(error)
        finally:
            scope.cancel()

    async def _serve_requests(self) -> None:
        """Answer requests until the client ends or times out."""
        while True:
            try:
                line = await self._line()
            except RequestError as failure:
                await self.send_response(_error_response(None, failure))
                return
            if line is None:
                return
            await self._answer(line)

    async def _line(self) -> bytes | None:
        """Receive the next request; None at the end, or after a timeout. `RequestError` with `too-long` or `busy`."""
        searched = 0
        began = trio.current_time()
        while (end := self._unread.find(b"\n", searched)) < 0:
            if len(self._unread) > MAX_LINE:
                raise RequestError("too-long", f"a request has {MAX_LINE} bytes at most")
            if not self._has_room():
                raise RequestError("busy", f"requests that are not whole have {MAX_UNREAD} bytes already: ask again")
            searched = len(self._unread)
            is_watching = self._excerpt is not None or self._subscription is not None
            timeout = LINE_TIMEOUT if searched else float("inf") if is_watching else IDLE_TIMEOUT
            with trio.move_on_at(began + timeout) as patience:
                data = await self._stream.receive_some()
            if patience.cancelled_caught or not data:
                return None
            if not searched:
                began = trio.current_time()
            self._unread += data
        line = bytes(self._unread[:end])
        del self._unread[: end + 1]
        return line

    async def _answer(self, line: bytes) -> None:
        if not line.strip():
            await trio.lowlevel.checkpoint()  # there may be thousands of empty lines at once
            return
        try:
            request = parse(line)
            if isinstance(request, Subscribe):
                self._follow(request)
                await self.send_response(_ok_response(request, {}))
                return
            if isinstance(request, More):
                if self._subscription is None:
                    raise RequestError("not-subscribed", "there is no subscription to send more of")
                self._subscription.grant(request.credit, request.max_age)
                await self.send_response(_ok_response(request, {}))
                return
            if isinstance(request, WatchHeld):
                self._excerpt = request.body
            answer = await self._handler.answered(request)
        except RequestError as failure:
            await self.send_response(_error_response(id_of(line), failure))
            return
        if isinstance(answer, StreamedList):
            await self._send_pieces(request, answer)
        elif isinstance(answer, ListResponse):
            async with self._lock:  # so that events made while listing follow the list
                await self._send(_ok_response(request, await _listed(answer)))
        else:
            await self.send_response(_ok_response(request, answer))

    async def _send_pieces(self, request: AnyRequest, listing: StreamedList) -> None:
        """Send a list in pieces of about `BATCH_SIZE` bytes, so that no more than one is in memory."""
        is_more = True
        async with self._lock:
            while is_more:
                piece: list[msgspec.Raw] = []
                async with self._share.turn() as is_over:
                    is_more = _take_piece(listing.entries, piece, is_over)
                if piece or not is_more:
                    await self._send(_ok_response(request, {listing.name: piece, "more": is_more}))

    def _follow(self, request: Subscribe) -> None:
        """Replace the client's subscription."""
        subscribed = ExitStack()
        subscription = subscribed.enter_context(self._subscribe(request, lambda: self._something.set()))
        self._stack.close()
        self._stack, self._subscription = subscribed, subscription
        self._something.set()

    def note_hold(self, session: Session, number: int) -> None:
        if self._excerpt is None:
            return
        held = self._handler.held(session, number, self._excerpt)
        if held is None:
            return
        event = encoded({"event": "held", "held": held})
        if len(self._events) >= MAX_EVENTS or self._events_size + len(event) > MAX_EVENT_BYTES:
            self._lost += 1
        else:
            self._events.append(event)
            self._events_size += len(event)
        self._something.set()

    async def _send_events(self) -> None:
        """Send the events of held commands and of the subscription as they happen."""
        while True:
            await self._something.wait()
            self._something = trio.Event()
            is_all = self._subscription is None or not await self._send_records(self._subscription)
            await self._send_held()
            if self._subscription is not None and is_all:
                await trio.sleep(BATCH_INTERVAL)

    async def _send_held(self) -> None:
        while self._events:
            event = self._events.popleft()
            self._events_size -= len(event)
            await self.send_response(msgspec.Raw(event))
            if self._lost:
                lost, self._lost = self._lost, 0
                await self.send_response({"event": "lost", "count": lost})

    async def _report_overdue(self) -> None:
        """Report the subscription's overdue messages every `OVERDUE_INTERVAL` seconds."""
        while True:
            await trio.sleep(OVERDUE_INTERVAL)
            if self._subscription is not None:
                await self._subscription.report_overdue()

    async def _send_records(self, subscription: Subscription) -> bool:
        """Send a subscription's events in batches, as far as its credit goes; return whether there are more."""
        is_more = True
        while is_more and subscription is self._subscription and subscription.may_send:
            batch: list[bytes] = []
            size = 0
            async with self._share.turn() as is_over:
                while is_more and size < BATCH_SIZE and not is_over():
                    is_more = subscription.look()
                    events = list(subscription.events())
                    batch += events
                    size += sum(map(len, events))
            if batch and subscription is self._subscription:  # it may have been replaced meanwhile
                if subscription.credit is not None:
                    subscription.credit -= 1
                    batch.append(b'{"event":"batch","behind":%.3f}' % subscription.behind)
                await self._send_batch(b"\n".join([*batch, b""]))
            await self._send_held()
        return is_more

    async def _send_batch(self, batch: bytes) -> None:
        with trio.fail_after(SEND_TIMEOUT):
            async with self._lock:
                await self._stream.send_all(batch)

    async def send_response(self, answer: Response | msgspec.Raw) -> None:
        """Send one line. `TooSlowError` if the client does not read it."""
        with trio.fail_after(SEND_TIMEOUT):
            async with self._lock:
                await self._send(answer)

    async def _send(self, answer: Response | msgspec.Raw) -> None:
        """Send one line, as `send_response` does, for callers that hold the lock."""
        with trio.fail_after(SEND_TIMEOUT):
            await self._stream.send_all(encoded(answer) + b"\n")


def _take_piece(entries: Iterator[Any], piece: list[msgspec.Raw], is_over: Callable[[], bool]) -> bool:
    """Encode the next entries into `piece`; return whether there may be more."""
    size = 0
    for entry in entries:
        if entry is not None:
            data = encoded(entry)
            size += len(data)
            piece.append(msgspec.Raw(data))
        if size >= BATCH_SIZE or is_over():
            return True
    return False


async def _listed(listing: ListResponse) -> Response:
    """Build a response from as many entries as it may hold, yielding to other tasks each `TURN`."""
    entries: list[msgspec.Raw] = []
    size = left_out = 0
    turn = trio.current_time()
    for entry in listing.entries:
        if entry is None:
            pass
        elif len(entries) < MOST_LISTED and size < MOST_LISTED_BYTES:
            data = encoded(entry)
            size += len(data)
            if size <= MOST_LISTED_BYTES:
                entries.append(msgspec.Raw(data))
            else:
                left_out += 1
        else:
            left_out += 1
        if trio.current_time() - turn > TURN:
            await trio.lowlevel.checkpoint()
            turn = trio.current_time()
    answer: Response = {listing.name: entries, **listing.more}
    if left_out:
        answer["left_out"] = left_out
    return answer


def _addressed(id_: int | str | None) -> dict[str, Any]:
    return {} if id_ is None else {"id": id_}


def _ok_response(request: AnyRequest, answer: Response) -> Response:
    return _addressed(request.id) | {"ok": True} | answer


def _error_response(id_: int | str | None, failure: RequestError) -> Response:
    return _addressed(id_) | {"ok": False, "error": failure.name, "text": str(failure)}
