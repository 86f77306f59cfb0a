"""What of `amqp010_pumped_connection` is seen from Python, where it is compiled."""

from collections.abc import Callable, Iterable

from amqproxy.amqp010.command_numbering import CommandNumbering
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.pump.pumped_connection import PumpedConnection

class Amqp010PumpedConnection(PumpedConnection):
    def __init__(
        self,
        readers: tuple[FrameReader, FrameReader],
        numberings: tuple[CommandNumbering, CommandNumbering],
        channels: Iterable[int],
        descriptors: tuple[int, int],
        returned: Callable[[], object],
        note: Callable[[bool, memoryview, float, bool], object] | None = None,
    ) -> None: ...
