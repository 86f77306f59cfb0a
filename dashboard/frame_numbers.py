"""Ring rows of the nth frame of each direction, since findings name frames by these numbers."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence

from amqproxy.amqp010.controls import ConnectionHeartbeat
from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp091.frame import HEARTBEAT, Frame
from amqproxy.amqp091.transitions import CLIENT, SERVER

MAX_RUNS = 500_000
"""Maximum number of runs for all connections; beyond it the older half of each direction's runs is forgotten."""


MAX_READS = 64
"""Number of each direction's last reads whose times are kept."""


class _Direction:
    """Frames of one sender on one connection: their `count`, and runs of consecutive rows.

    The run `i` begins with the frame numbered `numbers[i]`, in the row `rows[i]`. `reads` has the time of each of the
    last reads, and the number of its last frame.
    """

    __slots__ = ("count", "numbers", "reads", "rows")

    def __init__(self) -> None:
        self.reads: deque[tuple[int, int]] = deque(maxlen=MAX_READS)
        self.count = 0
        self.numbers = array("q")
        self.rows = array("q")


class FrameNumbers:
    """Frame counters of each traced direction, from 1 and without heartbeats, like the counts of its trace."""

    def __init__(self, max_runs: int = MAX_RUNS) -> None:
        self._directions: dict[tuple[int, str], _Direction] = {}
        self._max_runs = max_runs
        self._runs = 0

    def take(self, stream: int, sender: str, frames: Sequence[Frame | Amqp010Frame], seq: int, ts_ns: int = 0) -> None:
        """Number the frames of one read, whose rows begin at `seq`."""
        direction = self._directions.get((stream, sender))
        if direction is None:
            direction = self._directions[stream, sender] = _Direction()
        if 0 not in [frame.channel for frame in frames]:  # only frames of channel 0 can be heartbeats
            self._add(direction, seq, len(frames))
        else:
            for row, frame in enumerate(frames, seq):
                if not _is_heartbeat(frame):
                    self._add(direction, row, 1)
        direction.reads.append((ts_ns, direction.count))

    def row_of(self, stream: int, sender: str, number: int) -> int | None:
        """Return the row of a frame; `None` if it has been forgotten or was never counted."""
        direction = self._directions.get((stream, sender))
        if direction is None or number > direction.count:
            return None
        run = bisect_right(direction.numbers, number) - 1
        return None if run < 0 else direction.rows[run] + number - direction.numbers[run]

    def was_read_at(self, stream: int, sender: str, number: int, ts_ns: int) -> bool:
        """Whether the frame with this number came with one of the last reads, at this time."""
        direction = self._directions.get((stream, sender))
        if direction is None or number > direction.count:
            return False
        return next((time for time, last in direction.reads if number <= last), None) == ts_ns

    def end(self, stream: int) -> None:
        """Forget a connection that has ended or whose frames are numbered anew."""
        for sender in (CLIENT, SERVER):
            found = self._directions.pop((stream, sender), None)
            self._runs -= 0 if found is None else len(found.rows)

    def clear(self) -> None:
        """Forget all connections, whose frames are numbered anew."""
        self._directions.clear()
        self._runs = 0

    def _add(self, direction: _Direction, row: int, count: int) -> None:
        number = direction.count + 1
        direction.count += count
        if direction.rows and direction.rows[-1] + number - direction.numbers[-1] == row:
            return
        if self._runs >= self._max_runs:
            for each in self._directions.values():
                older = (len(each.rows) + 1) // 2
                del each.numbers[:older], each.rows[:older]
            self._runs = sum(len(each.rows) for each in self._directions.values())
        direction.numbers.append(number)
        direction.rows.append(row)
        self._runs += 1


def _is_heartbeat(frame: Frame | Amqp010Frame) -> bool:
    return frame.kind == HEARTBEAT if isinstance(frame, Frame) else frame.index == ConnectionHeartbeat.index
