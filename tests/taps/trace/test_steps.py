"""Work in steps, done at once."""

from __future__ import annotations

import pytest

from amqproxy.taps.trace.steps import Steps, run


def counting(done: list[int]) -> Steps[str]:
    for number in range(3):
        done.append(number)
        yield
    return "over"


def failing() -> Steps[None]:
    yield
    raise ValueError("impossible")


def test_all_steps_are_done_at_once() -> None:
    done: list[int] = []
    assert run(counting(done)) == "over"
    assert done == [0, 1, 2]


def test_a_failure_is_that_of_its_step() -> None:
    with pytest.raises(ValueError, match="impossible"):
        run(failing())
