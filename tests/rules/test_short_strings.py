"""Texts that fit."""

from __future__ import annotations

import pytest

from amqproxy.rules.short_strings import cut


@pytest.mark.parametrize(
    ("text", "fitting"),
    [
        ("", ""),
        ("x" * 255, "x" * 255),
        ("x" * 256, "x" * 252 + "..."),
        ("é" * 127, "é" * 127),
        ("é" * 128, "é" * 126 + "..."),
        ("x" + "é" * 128, "x" + "é" * 125 + "..."),
        ("x" * 251 + "😀" * 2, "x" * 251 + "..."),
        ("\udcff" * 255, "\udcff" * 255),
    ],
)
def test_what_is_too_long_is_cut(text: str, fitting: str) -> None:
    assert cut(text) == fitting
    assert len(fitting.encode("utf-8", "surrogateescape")) <= 255
