"""How late the event loop is."""

from amqproxy.proxy.loop_lag import KEPT, LoopLag


def test_the_last_and_the_largest_of_a_minute() -> None:
    lag = LoopLag()
    assert (lag.last, lag.most) == (0.0, 0.0)
    for seconds in (0.5, 0.25, -0.1):
        lag.note(seconds)
    assert (lag.last, lag.most) == (0.0, 0.5)
    for _ in range(KEPT):
        lag.note(0.125)
    assert (lag.last, lag.most) == (0.125, 0.125)
