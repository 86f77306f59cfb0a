"""Captures that are listed, downloaded and compared from a browser."""

from __future__ import annotations

import pytest

from tests.dashboard.conftest import Dashboard, capture_of

pytestmark = pytest.mark.once


def test_a_capture_is_downloaded_and_no_other_file_is(dashboard: Dashboard) -> None:
    path = capture_of("confirms").resolve()
    client = dashboard("confirms")
    response = client.get("/api/v1/captures/download", params={"path": str(path)})
    assert response.content == path.read_bytes()
    assert response.headers["content-disposition"] == 'attachment; filename="confirms.pcapng"'
    other = path.with_name("channel-error.pcapng")
    assert client.get("/api/v1/captures/download", params={"path": str(other)}).status_code == 404


def test_two_captures_are_compared_even_by_who_may_only_look(dashboard: Dashboard) -> None:
    client = dashboard("confirms", "channel-error", read_only=True)
    a, b = (str(capture_of(name).resolve()) for name in ("confirms", "channel-error"))
    found = client.get("/api/v1/captures/compare", params={"a": a, "b": b}).json()
    assert (found["summary"]["is_same"], len(found["differences"])) == (False, 8)
    assert client.get("/api/v1/captures/compare", params={"a": a, "b": "/etc/passwd"}).status_code == 404
