"""What clients call themselves."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.control.client_name import MOST_TEXT, client_name, shown_text


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        ({}, ""),
        ({"connection_name": "billing", "qpid.client_process": "p"}, "billing"),
        ({"clientName": "ID:x", "product": "Qpid"}, "ID:x"),
        ({"connection_name": "", "qpid.client_process": b"p\xff"}, "p\\xff"),
    ],
)
def test_names(properties: dict[str, Any], name: str) -> None:
    assert client_name(properties) == name


def test_texts_are_bounded() -> None:
    assert shown_text("x" * 5000) == "x" * MOST_TEXT
    assert shown_text("\udcff") == "\\udcff"
