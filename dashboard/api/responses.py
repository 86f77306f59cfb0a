"""Responses of JSON that is made as bytes, since there may be much of it."""

from __future__ import annotations

from typing import Any

from fastapi import Response

from amqproxy.taps.record import encoded
from dashboard.frame_query import Page
from dashboard.row_writer import joined


def json_response(data: bytes | Any, status: int = 200) -> Response:
    """A response of JSON: these bytes, or a value."""
    return Response(data if isinstance(data, bytes) else encoded(data), status, media_type="application/json")


def page_response(page: Page, first: int, end: int) -> Response:
    """Rows, and which ones there are in all."""
    return json_response(
        b'{"rows":%b,"has_more":%b,"searched":%d,"first":%d,"next":%d}'
        % (joined(page.rows), b"true" if page.has_more else b"false", page.searched, first, end)
    )
