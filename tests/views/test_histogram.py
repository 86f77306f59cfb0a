"""Bars and sparklines of text."""

from __future__ import annotations

import io

import pytest

from amqproxy.views.histogram import bar, has_blocks, sparkline


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("value", "blocks", "text"),
    [
        (0, True, ""),
        (10, True, "████"),
        (5, True, "██"),
        (6, True, "██▍"),
        (0.001, True, "▏"),
        (10, False, "####"),
        (0.001, False, "#"),
    ],
)
def test_a_bar(value: float, blocks: bool, text: str) -> None:
    assert bar(value, 10, 4, blocks=blocks) == text


def test_a_sparkline() -> None:
    assert sparkline([0, 1, 500, 1000], blocks=True) == " ▁▄█"
    assert sparkline([0, 1, 500, 1000], blocks=False) == " .=@"
    assert sparkline([], blocks=True) == ""


def test_blocks_are_for_terminals_that_have_them() -> None:
    assert has_blocks(Terminal(io.BytesIO(), encoding="utf-8"))
    assert not has_blocks(Terminal(io.BytesIO(), encoding="latin-1"))
    assert not has_blocks(io.StringIO())
    assert not has_blocks(None)
