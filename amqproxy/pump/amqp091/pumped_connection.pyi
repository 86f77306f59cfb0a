"""Python's view of the compiled `pumped_connection`."""

from collections.abc import Callable

from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.pump.pumped_connection import PumpedConnection

class Amqp091PumpedConnection(PumpedConnection):
    def __init__(
        self,
        readers: tuple[FrameReader, FrameReader],
        descriptors: tuple[int, int],
        returned: Callable[[], object],
        note: Callable[[bool, memoryview, float, bool], object] | None = None,
    ) -> None: ...
