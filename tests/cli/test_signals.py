"""Ctrl-C and SIGTERM while a command works."""

from __future__ import annotations

import signal

import pytest

from amqproxy.cli.signals import on_signals

BOTH = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("number", BOTH)
def test_the_first_and_those_behind_it(number: signal.Signals) -> None:
    called: list[str] = []
    before = [signal.getsignal(each) for each in BOTH]
    with on_signals(lambda: called.append("first"), lambda: called.append("then")):
        for _ in range(3):
            signal.raise_signal(number)
    assert called == ["first", "then", "then"]
    assert [signal.getsignal(each) for each in BOTH] == before


def test_handlers_are_put_back_after_a_failure() -> None:
    before = [signal.getsignal(each) for each in BOTH]
    called: list[int] = []

    def fail() -> None:
        with on_signals(lambda: called.append(1)):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
            raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        fail()
    assert called == [1, 1]
    assert [signal.getsignal(each) for each in BOTH] == before
