"""In which row of the ring the nth frame of a direction is: findings name frames by such numbers."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence

from amqproxy.amqp010.controls import ConnectionHeartbeat
from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp091.frame import HEARTBEAT, Frame
from amqproxy.amqp091.transitions import CLIENT, SERVER

MAX_RUNS = 500_000
"""Runs of rows that are kept of all connections; beyond that the older half of each direction's is forgotten."""


class _Direction:
    """What one sender has sent on one connection: `count` frames, in runs of rows that follow each other.

    The run `i` begins with the frame numbered `numbers[i]`, in the row `rows[i]`.
    """

    __slots__ = ("count", "numbers", "rows")

    def __init__(self) -> None:
        self.count = 0
        self.numbers = array("q")
        self.rows = array("q")


class FrameNumbers:
    """Counts the frames of each direction that is traced, from 1, without heartbeats, as its trace does."""

    def __init__(self, max_runs: int = MAX_RUNS) -> None:
        self._directions: dict[tuple[int, str], _Direction] = {}
        self._max_runs = max_runs
        self._runs = 0

    def take(self, stream: int, sender: str, frames: Sequence[Frame | Amqp010Frame], seq: int) -> None:
        """Take frames that are in the rows from `seq` on."""
        direction = self._directions.get((stream, sender))
        if direction is None:
            direction = self._directions[stream, sender] = _Direction()
        beats = [_is_heartbeat(frame) for frame in frames]
        if True not in beats:
            self._add(direction, seq, len(beats))
            return
        for row, is_heartbeat in enumerate(beats, seq):
            if not is_heartbeat:
                self._add(direction, row, 1)

    def row_of(self, stream: int, sender: str, number: int) -> int | None:
        """The row of a frame; None where that is not known any more."""
        direction = self._directions.get((stream, sender))
        if direction is None or number > direction.count:
            return None
        run = bisect_right(direction.numbers, number) - 1
        return None if run < 0 else direction.rows[run] + number - direction.numbers[run]

    def end(self, stream: int) -> None:
        """A connection is over, or is counted anew."""
        for sender in (CLIENT, SERVER):
            found = self._directions.pop((stream, sender), None)
            self._runs -= 0 if found is None else len(found.rows)

    def clear(self) -> None:
        """All are counted anew."""
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
    if isinstance(frame, Frame):
        return frame.kind == HEARTBEAT
    return frame.index == ConnectionHeartbeat.index
