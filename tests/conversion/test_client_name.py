"""What clients of either protocol call themselves."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.conversion.client_name import given_name


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        ({}, ""),
        ({"connection_name": "billing", "qpid.client_process": "p"}, "billing"),
        ({"clientName": "ID:x", "qpid.client_process": "p", "product": "Qpid"}, "ID:x"),
        ({"connection_name": "", "clientName": None, "qpid.client_process": b"p\xff"}, "p\\xff"),
        ({"connection_name": {"any": "table"}, "clientName": 5}, ""),
        ({"connection_name": {"any": "table"}, "clientName": "ID:x"}, "ID:x"),
    ],
)
def test_names(properties: dict[str, Any], name: str) -> None:
    assert given_name(properties) == name
