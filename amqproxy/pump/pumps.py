"""The pumps of one proxy, each in a separate thread, and the distribution of connections over them."""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Thread

import trio

from amqproxy.process.log import logger
from amqproxy.pump import idle_pump, tls_records
from amqproxy.pump.idle_connection import IdleConnection
from amqproxy.pump.idle_pump import IdlePump
from amqproxy.pump.pump import IS_AVAILABLE, STUCK_AFTER, Pump
from amqproxy.pump.pump_dialect import PumpDialect
from amqproxy.pump.pumped_connection import PumpedConnection
from amqproxy.pump.relay_loop import SMALL
from amqproxy.pump.return_reasons import FORCED, REASONS, RECALLED
from amqproxy.taps.metrics import LATENCY_BUCKETS, Metrics

READ_EVERY = 0.25
"""Seconds between two reads of the pumps' journals; a journal that is half full is read sooner."""

AnyPump = Pump | IdlePump
AnyPumped = PumpedConnection | IdleConnection

MANY_FRAMES = 256
"""Frames relayed by a pump from which handing the connection over was worth while."""

IDLE_AFTER = 0.1
"""Seconds without a byte after which a connection is handed over, however few chunks were relayed."""

NEVER = 1 << 40
"""A number of chunks that no session reaches."""

LONG = 10.0
"""Seconds with an idle pump from which handing the connection over was worth while."""

FIRST_CHUNKS = 8
"""Chunks that a session relays before it hands its connection over."""

MOST_CHUNKS = 1024
"""Maximum of `FIRST_CHUNKS` after pumps have repeatedly given the connection back soon."""

OFFERS_A_TURN = 25
RETURNS_A_TURN = 25
"""Maximum number of connections checked for idleness, and of those given back, in one turn of the loop."""


class Pumps:
    """Pumps in `threads` threads; with 0 there is one pump, which the event loop runs.

    With `is_idle_only`, that is an `IdlePump`, which a plain run has too: sessions hand over only idle connections.

    There are fewer, or none, if the system refuses a thread, a descriptor or memory, or if a thread ends: then this is
    logged, and the event loop relays their connections. `count` is the current number.

    Each relays connections of all `dialects`. A connection is given back after `most_frames` frames, and then a session
    offers it again after `first_chunks` chunks, rising to at most `most_chunks`: with these, tests make connections
    change owners all the time. To be used from one thread.
    """

    def __init__(
        self,
        threads: int,
        dialects: Sequence[PumpDialect],
        metrics: Metrics,
        *,
        most_frames: int = 0,
        first_chunks: int = FIRST_CHUNKS,
        most_chunks: int = MOST_CHUNKS,
        is_idle_only: bool = False,
    ) -> None:
        self.is_idle_only = is_idle_only
        self.first_chunks = NEVER if is_idle_only else first_chunks
        self.most_chunks = 64 * NEVER if is_idle_only else most_chunks
        self.most_held = 0 if is_idle_only else SMALL
        self.handed_over = 0
        self._is_ending = False
        self._metrics = metrics
        self._threads: dict[AnyPump, Thread] = {}
        self._watched: list[tuple[float, int, Callable[[], float | None]]] = []
        self._numbers = itertools.count()
        self._is_sooner = trio.Event()
        self._pumps: list[Pump | IdlePump] = []
        pump: Pump | IdlePump
        for _ in range(max(1, threads)):
            try:
                if is_idle_only:
                    pump = IdlePump({each.idle: each.tallies for each in dialects})
                else:
                    pump = Pump(
                        {each.pumped: each.new_scanner(each.tallies) for each in dialects},
                        LATENCY_BUCKETS,
                        most_frames=most_frames,
                        stuck_after=STUCK_AFTER if threads else 0.0,
                        is_threaded=threads > 0,
                    )
            except (OSError, MemoryError) as error:
                _report_missing(error)
            else:
                self._pumps.append(pump)
        metrics.before_scrape.append(self.collect)
        metrics.pumped.set_function(lambda: 0 if is_idle_only else self.connections)
        metrics.pump_threads.set_function(lambda: len(self._threads))
        self._returns = {reason: metrics.pump_returns.labels(name) for reason, name in REASONS.items()}

    @property
    def count(self) -> int:
        """The current number of pumps."""
        return len(self._pumps)

    @property
    def takes_more(self) -> bool:
        """Whether there is a pump, and `end` has not been called."""
        return bool(self._pumps) and not self._is_ending

    @property
    def connections(self) -> int:
        """The number of connections that all pumps hold."""
        return sum(pump.connections for pump in self._pumps)

    @property
    def take_tls(self) -> bool:
        """Whether connections over TLS can be handed over."""
        return not self.is_idle_only and tls_records.is_available()

    def was_worth_while(self, connection: AnyPumped) -> bool:
        """Whether handing over a connection that is back was worth while: it stayed or relayed long enough."""
        if isinstance(connection, IdleConnection):
            return time.monotonic() - connection.since >= LONG
        return connection.reason in (FORCED, RECALLED) or connection.frames() >= MANY_FRAMES

    def take(self, connection: AnyPumped) -> AnyPump | None:
        """Hand a connection to the least loaded pump until its `returned` is called, and return the pump.

        There must be a pump. Returns `None` if an idle pump cannot take it because the system cannot poll another one.
        """
        pump = min(self._pumps, key=lambda each: each.connections)
        try:
            pump.take(connection)
        except OSError:
            return None
        self.handed_over += 1
        return pump

    def end(self) -> None:
        """Stop taking connections, and give back all connections, some in each turn of the loop.

        This waits for a pump's thread once, not for each connection: on a busy machine, each wait takes 5 ms.
        """
        self._is_ending = True
        for pump in self._pumps:
            if not isinstance(pump, IdlePump):
                pump.ask_back()

    def note_return(self, connection: AnyPumped) -> None:
        """Count a returned connection by its reason."""
        if not self.is_idle_only:
            self._returns[connection.reason].inc()

    def read_journals(self) -> None:
        """Count the messages that the pumps have forwarded so far."""
        for pump in self._pumps:
            pump.read_journal()

    def watch(self, offer: Callable[[], float | None], seconds: float) -> None:
        """After `seconds`, call the `offer` of a connection that no pump holds.

        It returns the seconds until its next call, or `None` for no further calls.
        """
        self._push(trio.current_time() + seconds, offer)
        if self._watched[0][2] is offer:
            self._is_sooner.set()

    def _push(self, due: float, offer: Callable[[], float | None]) -> None:
        heapq.heappush(self._watched, (due, next(self._numbers), offer))

    def silent(self, now: float) -> list[object]:
        """Return the holders of connections with a peer that was silent for too long; see `PumpedConnection.watch`."""
        return [holder for pump in self._pumps for holder in pump.silent(now)]

    def collect(self) -> None:
        """Add the pumps' counts since the last call to the metrics; any thread may call this."""
        for pump in self._pumps.copy():
            self._collect_of(pump)

    def _collect_of(self, pump: AnyPump) -> None:
        latency = self._metrics.latency
        counts, total = pump.collect()
        for place, count in enumerate(counts):
            latency.counts[place] += count
        latency.total += total

    # --- running

    @contextmanager
    def started(self) -> Iterator[None]:
        """Run the pumps' threads for the duration of the block, and recall all connections at its end."""
        for number, pump in enumerate(self._pumps.copy(), 1):
            if not isinstance(pump, IdlePump) and pump.is_threaded:
                thread = Thread(target=pump.run, name=f"pump {number}", daemon=True)
                try:
                    thread.start()
                except (RuntimeError, MemoryError) as error:  # the system has no thread, or no memory for one
                    _report_missing(error)
                    self._pumps.remove(pump)
                else:
                    self._threads[pump] = thread
        try:
            yield
        finally:
            for pump in self._pumps:
                pump.recall_all()
                pump.stop()
            for thread in self._threads.values():
                thread.join()
            self._threads.clear()
            self.collect()

    async def run(self) -> None:
        """Offer idle connections and receive returned ones, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._offer)
            for pump in self._pumps.copy():
                nursery.start_soon(self._serve if pump.is_threaded else self._turn, pump)

    async def _offer(self) -> None:
        """Call the due offers of idle connections, some in each turn of the loop."""
        while True:
            self._is_sooner = trio.Event()
            with trio.move_on_at(self._watched[0][0] if self._watched else math.inf):
                await self._is_sooner.wait()
            now = trio.current_time()
            for _ in range(OFFERS_A_TURN):
                if not self._watched or self._watched[0][0] > now:
                    break
                offer = heapq.heappop(self._watched)[2]
                again = offer()
                if again is not None:
                    self._push(now + again, offer)

    async def _serve(self, pump: AnyPump) -> None:
        while not pump.has_ended:
            with trio.move_on_after(0 if pump.has_returned else READ_EVERY):
                await trio.lowlevel.wait_readable(pump.returns_descriptor)
            pump.receive_returned(RETURNS_A_TURN)
            pump.read_journal()
        self._do_without(pump)

    def _do_without(self, pump: AnyPump) -> None:
        """Remove a pump whose thread has ended unexpectedly; the event loop relays its connections."""
        had = pump.connections
        pump.recall_all()
        self._collect_of(pump)
        self._pumps.remove(pump)
        del self._threads[pump]
        logger().error("pump ended", connections=had, left=len(self._pumps))

    async def _turn(self, pump: AnyPump) -> None:
        """Run a pump without a thread."""
        while True:
            if pump.has_unfinished:
                await trio.lowlevel.checkpoint()
            else:
                await trio.lowlevel.wait_readable(pump.descriptor)
            pump.turn()
            pump.receive_returned()
            pump.read_journal()


def _report_missing(error: Exception) -> None:
    """Log that a pump could not be created or started."""
    logger().error("a pump less", reason=str(error) or type(error).__name__)


def are_available() -> bool:
    """Whether pumps are available: they must be compiled, on Linux."""
    return IS_AVAILABLE


def may_be_idle() -> bool:
    """Whether idle pumps are available, which need epoll."""
    return idle_pump.is_available()
