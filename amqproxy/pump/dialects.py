"""The protocols whose connections pumps relay."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.pump.amqp010.frame_scanner import Amqp010FrameScanner
from amqproxy.pump.amqp010.idle_connection import Amqp010IdleConnection
from amqproxy.pump.amqp010.pumped_connection import Amqp010PumpedConnection
from amqproxy.pump.amqp091.frame_scanner import Amqp091FrameScanner
from amqproxy.pump.amqp091.idle_connection import Amqp091IdleConnection
from amqproxy.pump.amqp091.pumped_connection import Amqp091PumpedConnection
from amqproxy.pump.pump_dialect import PumpDialect
from amqproxy.pump.relay_loop import SCRATCH
from amqproxy.taps.metrics import Metrics


def pump_dialects(metrics: Metrics, keeps: Mapping[Peer, bytes], amqp010_keeps: bytes) -> tuple[PumpDialect, ...]:
    """Return the dialects of pumps that count into `metrics`.

    A pump gives a connection back at the methods that are kept for the session: `keeps` has a 1 at the index of each,
    per peer in AMQP 0-9-1, and `amqp010_keeps` for both peers in AMQP 0-10.
    """
    return (
        PumpDialect(
            Amqp091PumpedConnection,
            Amqp091IdleConnection,
            partial(Amqp091FrameScanner, (keeps[CLIENT], keeps[SERVER]), SCRATCH),
            (metrics.tallies[CLIENT], metrics.tallies[SERVER]),
        ),
        PumpDialect(
            Amqp010PumpedConnection,
            Amqp010IdleConnection,
            partial(Amqp010FrameScanner, amqp010_keeps),
            (metrics.amqp010_tallies[CLIENT], metrics.amqp010_tallies[SERVER]),
        ),
    )
