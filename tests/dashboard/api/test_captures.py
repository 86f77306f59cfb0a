"""Captures that are listed, downloaded and compared from a browser."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from amqproxy.dashboard.settings import Settings
from tests.dashboard.conftest import Dashboard, capture_of, client_of

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


def test_a_recording_is_named_and_what_shows_it_knows(tmp_path: Path) -> None:
    for name in ("one", "other"):
        shutil.copy(capture_of("confirms"), tmp_path / f"{name}.pcapng")
    with client_of(Settings(captures=(tmp_path,))) as client:
        opened = client.post("/api/v1/captures/open", json={"path": str(tmp_path / "one.pcapng")}).json()
        answer = client.post("/api/v1/captures/name", json={"path": str(tmp_path / "one.pcapng"), "name": "the outage"})
        named = str(tmp_path / "the outage.pcapng")
        assert answer.json() == {"path": named, "name": "the outage.pcapng"}
        (tmp_path / "growing.pcapng.partial").write_bytes(b"")
        listed = {each["name"]: each for each in client.get("/api/v1/captures").json()["captures"]}
        assert {name: each["can_be_named"] for name, each in listed.items()} == {
            "the outage.pcapng": True,
            "other.pcapng": True,
            "growing.pcapng.partial": False,
        }
        (tmp_path / "growing.pcapng.partial").unlink()
        assert (listed["the outage.pcapng"]["path"], listed["the outage.pcapng"]["source"]) == (named, opened["id"])
        assert "the outage.pcapng" in [each["name"] for each in client.get("/api/v1/sources").json()]
        for path, name, status in (
            (named, "other", 409),
            (named, "../out", 409),
            ("/etc/passwd", "x", 404),
            (str(tmp_path / "one.pcapng"), "x", 404),
        ):
            assert client.post("/api/v1/captures/name", json={"path": path, "name": name}).status_code == status
        assert {each.name for each in tmp_path.iterdir()} == {"the outage.pcapng", "other.pcapng"}


def test_captures_given_as_files_keep_their_names_and_who_may_only_look_names_none(dashboard: Dashboard) -> None:
    task = {"path": str(capture_of("confirms").resolve()), "name": "x"}
    assert dashboard("confirms").post("/api/v1/captures/name", json=task).status_code == 409
    assert dashboard("confirms", read_only=True).post("/api/v1/captures/name", json=task).status_code == 403
