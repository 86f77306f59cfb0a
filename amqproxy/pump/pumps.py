"""The pumps of one proxy, each in a thread of its own, and how connections are spread over them."""

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
from amqproxy.pump import idle_pump
from amqproxy.pump.idle_connection import IdleConnection
from amqproxy.pump.idle_pump import IdlePump
from amqproxy.pump.pump import IS_AVAILABLE, STUCK_AFTER, Pump
from amqproxy.pump.pump_dialect import PumpDialect
from amqproxy.pump.pumped_connection import PumpedConnection
from amqproxy.pump.relay_loop import SMALL
from amqproxy.pump.return_reasons import FORCED, REASONS, RECALLED
from amqproxy.taps.metrics import LATENCY_BUCKETS, Metrics

READ_EVERY = 0.25
"""Seconds after which what pumps have written down is counted; sooner where their journals are half full."""

AnyPump = Pump | IdlePump
AnyPumped = PumpedConnection | IdleConnection

MANY_FRAMES = 256
"""Frames after which it was worth while to hand a connection over."""

IDLE_AFTER = 0.1
"""Seconds without a byte after which a connection is handed over, however little has passed."""

NEVER = 1 << 40
"""Chunks that no session relays."""

LONG = 10.0
"""Seconds after which it was worth while to have an idle pump keep a connection."""

FIRST_CHUNKS = 8
"""Chunks that a session relays itself before it hands its connection over."""

MOST_CHUNKS = 1024
"""The same, where pumps have given the connection back soon time and again."""

OFFERS_A_TURN = 25
RETURNS_A_TURN = 25
"""Connections that are looked at in one turn of the loop, whether they are idle; and that are given back in one."""


class Pumps:
    """So many `threads`, or with 0 none: then there is one pump, which the event loop runs.

    With `is_idle_only`, it is an `IdlePump`, which a plain run has too: sessions hand over what is idle, and no more.

    There are fewer, or none, where the system refuses a thread, a descriptor or memory, or where a thread ends: then
    the log has a line, and the event loop relays what they would have. `count` is how many there are just now.

    Each relays connections of all the `dialects`. `most_frames` gives a connection back after so many frames, and then
    a session offers it again with every `first_chunks`, at most `most_chunks`: so tests have connections change hands
    all the time. To be used from one thread.
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
        """How many pumps there are."""
        return len(self._pumps)

    @property
    def takes_more(self) -> bool:
        """Whether there is a pump, and `end` has not been called."""
        return bool(self._pumps) and not self._is_ending

    @property
    def connections(self) -> int:
        """How many they have."""
        return sum(pump.connections for pump in self._pumps)

    def was_worth_while(self, connection: AnyPumped) -> bool:
        """Was it worth while to hand a connection over that is back?"""
        if isinstance(connection, IdleConnection):
            return time.monotonic() - connection.since >= LONG
        return connection.reason in (FORCED, RECALLED) or connection.frames() >= MANY_FRAMES

    def take(self, connection: AnyPumped) -> AnyPump | None:
        """Relay a connection, until its `returned` is called; the pump that does. There must be one.

        None where an idle pump cannot, since the system does not wait for one more.
        """
        pump = min(self._pumps, key=lambda each: each.connections)
        try:
            pump.take(connection)
        except OSError:
            return None
        self.handed_over += 1
        return pump

    def end(self) -> None:
        """Take no more connections, and give back those that there are, some in each turn of the loop.

        The thread of a pump is waited for once and not a thousand times: on a busy machine, each wait takes 5 ms.
        """
        self._is_ending = True
        for pump in self._pumps:
            if not isinstance(pump, IdlePump):
                pump.ask_back()

    def note_return(self, connection: AnyPumped) -> None:
        """Count that a connection is back."""
        if not self.is_idle_only:
            self._returns[connection.reason].inc()

    def read_journals(self) -> None:
        """Have counted what has passed so far."""
        for pump in self._pumps:
            pump.read_journal()

    def watch(self, offer: Callable[[], float | None], seconds: float) -> None:
        """Call `offer`, of a connection that is not with a pump, after so many seconds, and again after as many as it
        returns, until that is None.
        """
        self._push(trio.current_time() + seconds, offer)
        if self._watched[0][2] is offer:
            self._is_sooner.set()

    def _push(self, due: float, offer: Callable[[], float | None]) -> None:
        heapq.heappush(self._watched, (due, next(self._numbers), offer))

    def silent(self, now: float) -> list[object]:
        """The holders of connections of which a peer has been silent for too long; see `PumpedConnection.watch`."""
        return [holder for pump in self._pumps for holder in pump.silent(now)]

    def collect(self) -> None:
        """Add to the metrics what the pumps have counted since; for any thread."""
        for pump in self._pumps.copy():
            self._collect_of(pump)

    def _collect_of(self, pump: AnyPump) -> None:
        latency = self._metrics.latency
        counts, total = pump.collect()
        for place, count in enumerate(counts):
            latency.counts[place] += count
        latency.total += total

    # --- from beginning to end

    @contextmanager
    def started(self) -> Iterator[None]:
        """Their threads run, until the block ends. Then no connection is with them."""
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
        """Take back what they give back, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._offer)
            for pump in self._pumps.copy():
                nursery.start_soon(self._serve if pump.is_threaded else self._turn, pump)

    async def _offer(self) -> None:
        """Have idle connections handed over, some in each turn of the loop."""
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
        """A pump's thread has ended, though nothing has stopped it: the event loop relays what it had."""
        had = pump.connections
        pump.recall_all()
        self._collect_of(pump)
        self._pumps.remove(pump)
        del self._threads[pump]
        logger().error("pump ended", connections=had, left=len(self._pumps))

    async def _turn(self, pump: AnyPump) -> None:
        """Run a pump that has no thread."""
        while True:
            await trio.lowlevel.wait_readable(pump.descriptor)
            pump.turn()
            pump.receive_returned()
            pump.read_journal()


def _report_missing(error: Exception) -> None:
    """A pump cannot be had."""
    logger().error("a pump less", reason=str(error) or type(error).__name__)


def are_available() -> bool:
    """Can there be pumps? They are compiled, and for Linux."""
    return IS_AVAILABLE


def may_be_idle() -> bool:
    """Can there be idle pumps? Where the system has epoll."""
    return idle_pump.is_available()
