"""The classes and tallies that pumps need for one protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from amqproxy.pump.frame_scanner import FrameScanner
from amqproxy.pump.idle_connection import IdleConnection
from amqproxy.pump.pumped_connection import PumpedConnection
from amqproxy.pump.tallies import Tallies


class PumpDialect(NamedTuple):
    """A protocol's connection classes, the factory of each pump's scanner, and the tallies that it adds to."""

    pumped: type[PumpedConnection]
    idle: type[IdleConnection]
    new_scanner: Callable[[Tallies], FrameScanner]
    tallies: Tallies
