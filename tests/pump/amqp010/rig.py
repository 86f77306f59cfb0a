"""An AMQP 0-10 connection whose two peers are sockets of the test, and a pump between them."""

from __future__ import annotations

from collections.abc import Callable

from amqproxy.amqp010.command_numbering import CommandNumbering
from amqproxy.amqp010.controls import SessionCommandPoint
from amqproxy.amqp010.frame import Frame, encode_method
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.proxy.amqp010.stateful import KEPT as AMQP010_KEPT
from amqproxy.pump.amqp010.frame_scanner import Amqp010FrameScanner
from amqproxy.pump.amqp010.pumped_connection import Amqp010PumpedConnection
from amqproxy.pump.pump import Pump
from amqproxy.pump.pumped_connection import PumpedConnection
from amqproxy.pump.tallies import Tallies
from tests.pump.rig import Wire, pump


def amqp010_pump(tallies: Tallies | None = None, **options: object) -> Pump:
    """Return a pump that its owner turns, unless `is_threaded`, and that passes what the proxy's do."""
    return pump(scanners={Amqp010PumpedConnection: Amqp010FrameScanner(AMQP010_KEPT, tallies)}, **options)


def numbering(*channels: int) -> CommandNumbering:
    """One that knows these channels' ids, which begin at 0xFFFFFFF0."""
    found = CommandNumbering()
    for channel in channels:
        found.number(Frame(encode_method(channel, SessionCommandPoint(0xFFFF_FFF0, 0))))
    return found


class Amqp010Wire(Wire):
    """Sessions are attached to the `channels`."""

    def __init__(
        self,
        pump: Pump,
        channels: tuple[int, ...] = (1, 2),
        note: Callable[[bool, memoryview, float, bool], object] | None = None,
        tcp: bool = False,
        frame_max: int = 4096,
        buffer: int = 0,
    ) -> None:
        super().__init__(pump, (), note, tcp, frame_max, buffer)
        self.channels = channels
        self.amqp010_readers = FrameReader(frame_max=frame_max), FrameReader(frame_max=frame_max)
        self.numberings = numbering(*channels), numbering(*channels)

    def lease_of(self, descriptors: tuple[int, int]) -> PumpedConnection:
        return Amqp010PumpedConnection(
            self.amqp010_readers, self.numberings, self.channels, descriptors, self._return, self.note
        )
