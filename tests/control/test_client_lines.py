"""Requests as lines."""

from __future__ import annotations

import pytest

from amqproxy.control.client_lines import MAX_LINE, request_line
from amqproxy.control.request_error import RequestError


def test_a_request_that_the_proxy_would_refuse_is_not_sent() -> None:
    room = MAX_LINE - len(request_line("r", {"body": ""}))
    assert len(request_line("r", {"body": "x" * room})) == MAX_LINE
    with pytest.raises(RequestError, match=f"this one has {MAX_LINE + 1}") as refused:
        request_line("r", {"body": "x" * (room + 1)})
    assert refused.value.name == "too-long"
