"""Python's view of the compiled `pumped_connection`."""

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
