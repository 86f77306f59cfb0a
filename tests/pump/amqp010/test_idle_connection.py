"""What passes while a connection of AMQP 0-10 is idle; `test_idle_pump` has it with a pump."""

from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.pump.amqp010.idle_connection import Amqp010IdleConnection


def test_its_heartbeat_is_that_of_amqp_0_10() -> None:
    [frame] = FrameReader().feed(Amqp010IdleConnection.heartbeat)
    assert (frame.name, frame.index) == ("connection.heartbeat", Amqp010IdleConnection.heartbeat_kind)


def test_other_readers_go_on_where_the_first_were() -> None:
    connection = Amqp010IdleConnection((FrameReader(), FrameReader()), (3, 4), lambda: None)
    connection.taken[0], connection.frame_counts[0] = 32, 2
    other = FrameReader(offset=100)
    connection.adopt((other, FrameReader()), (7, 0))
    assert connection.show() == (0, 0)
    assert (other.offset, other.frames) == (132, 9)
