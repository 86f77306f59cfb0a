"""JSON responses that are encoded as bytes, since they may be large."""

from __future__ import annotations

from typing import Any

from fastapi import Response

from amqproxy.dashboard.frame_query import Page
from amqproxy.dashboard.row_writer import joined
from amqproxy.taps.record import encoded


def json_response(data: bytes | Any, status: int = 200) -> Response:
    """Return a JSON response from encoded bytes, or from a value."""
    return Response(data if isinstance(data, bytes) else encoded(data), status, media_type="application/json")


def page_response(page: Page, first: int, end: int) -> Response:
    """Return a page of rows, with the range of rows that are kept."""
    return json_response(
        b'{"rows":%b,"has_more":%b,"searched":%d,"first":%d,"next":%d,"warning":%b}'
        % (joined(page.rows), encoded(page.has_more), page.searched, first, end, encoded(page.warning))
    )
