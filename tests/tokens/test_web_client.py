"""Requests to services: bounded in time and bytes, and never redirected."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trio
import trustme

from amqproxy.configuration.config import ConfigError
from amqproxy.tokens.web_client import WebClient, WebFailed
from tests.tokens.web_service import Reply, WebService


async def test_a_form_is_posted(service: WebService) -> None:
    client = WebClient()
    service.answer = lambda _: Reply(b"yes", 201)
    form = {"username": "a", "password": "ü &=+"}
    answer = await client.post(f"{service.url}/user", form, 30, auth=("id", "secret"))
    assert answer == (201, b"yes")
    (request,) = service.requests
    assert (request.method, request.path, request.form) == ("POST", "/user", form)
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"
    assert request.headers["authorization"].startswith("Basic ")


async def test_no_redirect_is_followed(service: WebService) -> None:
    service.answer = lambda _: Reply(status=307, headers={"Location": f"{service.url}/elsewhere"})
    assert (await WebClient().get(f"{service.url}/keys", 30)).status == 307
    assert len(service.requests) == 1


async def test_a_long_answer_is_cut_short(service: WebService) -> None:
    service.answer = lambda _: Reply(size=1024 * 1024 * 1024)
    with pytest.raises(WebFailed, match="has answered with more than 1048576 bytes"):
        await WebClient().get(service.url, 30)


async def test_a_compressed_answer_is_not_unpacked(service: WebService) -> None:
    service.answer = lambda _: Reply(b"\x1f\x8b", headers={"Content-Encoding": "gzip"})
    assert (await WebClient().get(service.url, 30)).body == b"\x1f\x8b"
    assert service.requests[0].headers["accept-encoding"] == "identity"


async def test_an_answer_has_its_time(service: WebService) -> None:
    service.hang.clear()
    with pytest.raises(WebFailed, match=r"127.0.0.1:\d+ has not answered within 0.05 s"):
        await WebClient().post(service.url, {"password": "tulip"}, 0.05)


async def test_a_connection_closed_before_an_answer_is_a_failure(service: WebService) -> None:
    service.answer = lambda _: Reply(closes=True)
    with pytest.raises(WebFailed, match="cannot be asked"):
        await WebClient().post(service.url, {"password": "tulip"}, 30)
    assert service.requests[0].headers["connection"] == "close"


async def test_a_service_that_is_down_is_named() -> None:
    with pytest.raises(WebFailed, match=r"127\.0\.0\.1:1 cannot be asked") as found:
        await WebClient().post("http://127.0.0.1:1/", {"password": "tulip"}, 30)
    assert "tulip" not in str(found.value)


async def test_the_environment_is_not_asked(service: WebService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    assert (await WebClient().get(service.url, 30)).status == 200


async def test_certificates_are_verified(tmp_path: Path) -> None:
    """With the authorities of the system, or those of a file."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))

    async def serve(stream: trio.SocketStream) -> None:
        tls = trio.SSLStream(stream, context, server_side=True)
        try:
            received = b""
            while not received.endswith(b"\r\n\r\n"):
                received += await tls.receive_some()
            await tls.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        except (trio.BrokenResourceError, ssl.SSLError):
            pass  # the client has refused the certificate

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, serve, 0)
        url = f"https://localhost:{listeners[0].socket.getsockname()[1]}/"
        assert (await WebClient(str(tmp_path / "ca.pem")).get(url, 30)).body == b"ok"
        with pytest.raises(WebFailed, match="certificate verify failed"):
            await WebClient().get(url, 30)
        nursery.cancel_scope.cancel()


def test_a_file_without_authorities_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    for name in ("ca.pem", "missing.pem"):
        with pytest.raises(ConfigError, match=rf"^ca: .*{name} has no certificates of authorities: "):
            WebClient(str(tmp_path / name))
