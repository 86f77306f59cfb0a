"""The protocols whose connections pumps relay."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from amqproxy.amqp010.protocol_header import NAME as AMQP010
from amqproxy.amqp091.protocol_header import NAME as AMQP091
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.pump.amqp010.frame_scanner import Amqp010FrameScanner
from amqproxy.pump.amqp010.idle_connection import Amqp010IdleConnection
from amqproxy.pump.amqp010.pumped_connection import Amqp010PumpedConnection
from amqproxy.pump.amqp091.frame_scanner import Amqp091FrameScanner
from amqproxy.pump.amqp091.idle_connection import Amqp091IdleConnection
from amqproxy.pump.amqp091.pumped_connection import Amqp091PumpedConnection
from amqproxy.pump.pump_dialect import PumpDialect
from amqproxy.pump.relay_loop import SCRATCH
from amqproxy.taps.metrics import Metrics


def pump_dialects(metrics: Metrics, keeps: Mapping[str, Mapping[Peer, bytes]]) -> tuple[PumpDialect, ...]:
    """Return the dialects of pumps that count into `metrics`.

    A pump gives a connection back at the methods that are kept for the session: for each protocol and peer, `keeps` has
    a 1 at the index of each.
    """
    amqp091, amqp010 = keeps[AMQP091], keeps[AMQP010]
    return (
        PumpDialect(
            Amqp091PumpedConnection,
            Amqp091IdleConnection,
            partial(Amqp091FrameScanner, (amqp091[CLIENT], amqp091[SERVER]), SCRATCH),
            _tallies(metrics, AMQP091),
        ),
        PumpDialect(
            Amqp010PumpedConnection,
            Amqp010IdleConnection,
            partial(Amqp010FrameScanner, amqp010[CLIENT]),
            _tallies(metrics, AMQP010),
        ),
    )


def _tallies(metrics: Metrics, protocol: str) -> tuple[Any, Any]:
    tallies = metrics.tallies[protocol]
    return tallies[CLIENT], tallies[SERVER]
