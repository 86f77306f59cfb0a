"""/metrics over HTTP."""

import socket
import struct
import urllib.request

import prometheus_client
import pytest

from amqproxy.taps import endpoint


def registry() -> prometheus_client.CollectorRegistry:
    made = prometheus_client.CollectorRegistry()
    prometheus_client.Counter("things", "Some.", registry=made).inc(3)
    return made


def test_a_scrape() -> None:
    with (
        endpoint.serve(registry(), "127.0.0.1", 0) as port,
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer,
    ):
        assert b"things_total 3.0" in answer.read()


@pytest.mark.parametrize("said", [b"", b"GET /metr"])
def test_who_connects_and_asks_nothing_is_let_go(
    said: bytes, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(endpoint, "PATIENCE", 0.1)
    with (
        endpoint.serve(registry(), "127.0.0.1", 0) as port,
        socket.create_connection(("127.0.0.1", port), timeout=5) as idle,
    ):
        idle.sendall(said)
        assert idle.recv(1) == b""
    assert capfd.readouterr().err == ""


def test_who_is_gone_before_the_answer_is_written_is_no_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    with endpoint.serve(registry(), "127.0.0.1", 0) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as gone:
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            gone.sendall(b"GET /metrics HTTP/1.1\r\n")
        test_a_scrape()
    assert "Traceback" not in capfd.readouterr().err


def test_a_port_that_is_taken() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(OSError, match="in use"),
        endpoint.serve(registry(), "127.0.0.1", taken.getsockname()[1]),
    ):
        pass
