"""Who is answered, with which headers, and what errors show."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from structlog.testing import capture_logs

from amqproxy.dashboard import auth, pages
from amqproxy.dashboard.pages import serve_pages
from amqproxy.dashboard.settings import Settings
from amqproxy.web import wrong_passwords
from tests.dashboard.conftest import Dashboard

pytestmark = pytest.mark.once

SOURCES = "/api/v1/sources"
LIVE = "ws://127.0.0.1:8672/api/v1/live"


@pytest.mark.parametrize("host", ["127.0.0.1:8672", "localhost:8672", "[::1]:8672", "192.168.1.7"])
def test_own_names_and_addresses_are_answered(dashboard: Dashboard, host: str) -> None:
    assert dashboard().get(SOURCES, headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8672", ""])
def test_another_name_is_refused(dashboard: Dashboard, host: str) -> None:
    client = dashboard()
    response = client.get(SOURCES, headers={"host": host})
    assert (response.status_code, response.json()["status"]) == (403, 403)
    with pytest.raises(WebSocketDisconnect), client.websocket_connect(LIVE, headers={"host": host}):
        pass


def test_a_configured_name_is_answered(dashboard: Dashboard) -> None:
    assert dashboard(hosts=("amqp.internal",)).get(SOURCES, headers={"host": "amqp.internal"}).status_code == 200


def test_pages_of_other_sites_are_refused(dashboard: Dashboard) -> None:
    client = dashboard("confirms")
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9999", "http://["):
        assert client.post("/api/v1/session", json={}, headers={"origin": origin}).status_code == 403
        with pytest.raises(WebSocketDisconnect), client.websocket_connect(LIVE, headers={"origin": origin}):
            pass
    with client.websocket_connect(LIVE, headers={"origin": "http://127.0.0.1:8672", "host": "127.0.0.1:8672"}) as live:
        assert live.receive_json()["type"] == "sources"


def test_each_response_forbids_what_is_not_from_here(dashboard: Dashboard) -> None:
    client = dashboard("confirms")
    for path in ("/", SOURCES, "/api/v1/nothing", "/api/docs", "/frames"):
        headers = client.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


def test_a_token_or_a_password_is_needed_where_there_is_one(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrong_passwords, "FAILURE_PAUSE", 0.0)
    client = dashboard(token="t0ken", password="pass", host="0.0.0.0")
    assert client.get(SOURCES).status_code == 401
    assert client.get("/api/v1/openapi.json").status_code == 401
    with pytest.raises(WebSocketDisconnect), client.websocket_connect(LIVE):
        pass
    assert client.get(SOURCES, headers={"authorization": "Bearer t0ken"}).status_code == 200
    assert client.get(SOURCES, headers={"authorization": "Bearer t0ke"}).status_code == 401
    with capture_logs() as logs:
        refused = client.post("/api/v1/session", json={"token": "wrong", "password": "wrong"})
    assert refused.status_code == 401
    assert "wrong" not in str(logs)
    assert client.get("/api/v1/session").json() == {"needs_login": True, "is_logged_in": False, "read_only": False}
    answer = client.post("/api/v1/session", json={"password": "pass"})
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert client.get(SOURCES).status_code == 200
    with client.websocket_connect(LIVE) as live:
        assert live.receive_json()["type"] == "sources"
    client.delete("/api/v1/session")
    assert client.get(SOURCES).status_code == 401


def test_other_addresses_need_a_login() -> None:
    assert "--token-file" in str(Settings(host="0.0.0.0").problem())
    assert Settings(host="0.0.0.0", token="x").problem() is None
    assert Settings(host="::1").problem() is None
    assert Settings(certificate=Path("a")).problem() is not None


def test_what_fails_unexpectedly_reveals_nothing(dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    client = dashboard("confirms")

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("secret of the innards")

    monkeypatch.setattr("amqproxy.dashboard.sources.Sources.describe", fail)
    with capture_logs() as logs:
        response = client.get(SOURCES)
    assert response.status_code == 500
    assert "secret" not in response.text
    assert [each["event"] for each in logs if each["log_level"] == "error"] == ["dashboard request failed"]


def test_a_page_that_is_not_built_says_how(dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    response = TestClient(_app_without_page(monkeypatch)).get("/frames", headers={"host": "localhost"})
    assert response.status_code == 503
    assert "python hatch_build.py" in response.text


def _app_without_page(monkeypatch: pytest.MonkeyPatch) -> object:
    from fastapi import FastAPI

    app = FastAPI()
    pages.serve_pages(app, Path("/nowhere/at/all"))
    return app


def test_files_outside_of_the_page_are_not_served(dashboard: Dashboard) -> None:
    client = dashboard()
    for path in ("/../settings.py", "/%2e%2e/settings.py", "/assets/..%2f..%2fsettings.py"):
        assert "class Settings" not in client.get(path).text


def test_files_of_the_page_are_packed_for_who_accepts_it(tmp_path: Path) -> None:
    script = tmp_path / "assets" / "index.js"
    script.parent.mkdir()
    script.write_text("let a = 1\n" * 1000)
    app = FastAPI()
    serve_pages(app, tmp_path)
    client = TestClient(app)
    packed = client.get("/assets/index.js", headers={"accept-encoding": "gzip, br"})
    plain = client.get("/assets/index.js", headers={"accept-encoding": "identity"})
    assert packed.text == plain.text == script.read_text()
    assert (packed.headers["content-encoding"], "content-encoding" in plain.headers) == ("gzip", False)
    assert int(packed.headers["content-length"]) < 100 < int(plain.headers["content-length"])
    for response in (packed, plain):
        assert response.headers["content-type"] == "text/javascript; charset=utf-8"
        assert (response.headers["vary"], "immutable" in response.headers["cache-control"]) == ("accept-encoding", True)


def test_reading_only_changes_nothing(dashboard: Dashboard) -> None:
    client = dashboard("confirms", read_only=True)
    for path in ("connections/1/close", "held/1/1/release", "recording/start", "rules/check", "rules/try"):
        body = {"text": "rules: []"} if "rules" in path else {}
        assert client.post(f"{SOURCES}/0/{path}", json=body).status_code == 403


def test_the_api_is_documented_without_scripts(dashboard: Dashboard) -> None:
    page = dashboard().get("/api/docs")
    assert page.status_code == 200
    assert "GET /api/v1/sources/{source}/frames/{seq}" in page.text
    assert "<script" not in page.text
    assert dashboard().get("/api/docs.css").headers["content-type"].startswith("text/css")


def test_what_other_pages_embed_is_refused_and_links_to_ours_are_followed(dashboard: Dashboard) -> None:
    """Pictures and the like come without an `Origin`: a page of another site could have us work for nothing."""
    client = dashboard("confirms")
    link = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    for site in ("cross-site", "same-site"):
        assert client.get(SOURCES, headers={"sec-fetch-site": site}).status_code == 403
        assert client.get(SOURCES, headers={"sec-fetch-site": site, **link}).status_code == 403
        assert client.get("/frames", headers={"sec-fetch-site": site}).status_code == 403
        assert client.get("/frames", headers={"sec-fetch-site": site, **link}).status_code != 403
    assert client.get(SOURCES, headers={"sec-fetch-site": "same-origin"}).status_code == 200


@pytest.mark.parametrize("path", ["/%00", "/assets/%00.js", "/" + "a" * 5000, "/assets/" + "../" * 500 + "etc/passwd"])
def test_a_path_that_is_no_file_is_no_failure(dashboard: Dashboard, path: str) -> None:
    client = dashboard("confirms")
    with capture_logs() as logs:
        response = client.get(path)
    assert response.status_code in (200, 404, 503)
    assert "root:" not in response.text
    assert [each for each in logs if each["log_level"] == "error"] == []


def test_guesses_at_one_address_keep_no_other_address_out(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        logins = auth.Logins(Settings(password="right"))
        guesses = [asyncio.create_task(logins.log_in("wrong", "10.0.0.1")) for _ in range(wrong_passwords.MAX_FAILURES)]
        await asyncio.sleep(0)
        with pytest.raises(wrong_passwords.TooManyFailures):
            await logins.log_in("right", "10.0.0.1")
        assert await logins.log_in("right", "10.0.0.2")
        async with asyncio.timeout(30):
            assert await logins.log_in("wrong", "10.0.0.2") is None
        for each in guesses:
            each.cancel()
        await asyncio.gather(*guesses, return_exceptions=True)
        assert await logins.log_in("right", "10.0.0.1")
        assert not logins._wrong_passwords._failures

    asyncio.run(play())


def test_dashboards_at_two_ports_have_two_logins(dashboard: Dashboard) -> None:
    client = dashboard(token="t0ken")
    for port in (8672, 8673):
        answer = client.post("/api/v1/session", json={"token": "t0ken"}, headers={"host": f"127.0.0.1:{port}"})
        assert answer.headers["set-cookie"].startswith(f"amqproxy-dashboard-{port}=")
