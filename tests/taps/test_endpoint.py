"""/metrics over HTTP."""

import socket
import struct
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import prometheus_client
import pytest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from amqproxy.taps import endpoint


def registry() -> prometheus_client.CollectorRegistry:
    made = prometheus_client.CollectorRegistry()
    prometheus_client.Counter("things", "Some.", registry=made).inc(3)
    return made


NOTHING_HERE = b"there is nothing here: metrics are at /metrics, health at /healthz and /readyz\n"


def test_a_scrape() -> None:
    with (
        endpoint.serve(registry(), "127.0.0.1", 0) as port,
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer,
    ):
        assert b"things_total 3.0" in answer.read()


@pytest.mark.parametrize(
    ("path", "is_ready", "code", "text"),
    [
        ("/healthz", True, 200, b"ok\n"),
        ("/healthz", False, 200, b"ok\n"),
        ("/readyz", True, 200, b"ok\n"),
        ("/readyz?verbose", False, 503, b"draining, or not started\n"),
        ("/", True, 404, NOTHING_HERE),
        ("/metric", True, 404, NOTHING_HERE),
        ("/metrics/", True, 404, NOTHING_HERE),
    ],
)
def test_is_it_alive_and_does_it_take_clients(path: str, is_ready: bool, code: int, text: bytes) -> None:
    with endpoint.serve(registry(), "127.0.0.1", 0, is_ready=lambda: is_ready) as port:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                found = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            found = error.code, error.read()
    assert found == (code, text)


@pytest.mark.parametrize("sent", [b"", b"GET /metr"])
def test_who_connects_and_asks_nothing_is_let_go(
    sent: bytes, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(endpoint, "PATIENCE", 0.1)
    with (
        endpoint.serve(registry(), "127.0.0.1", 0) as port,
        socket.create_connection(("127.0.0.1", port), timeout=5) as idle,
    ):
        idle.sendall(sent)
        assert idle.recv(1) == b""
    assert capfd.readouterr().err == ""


def test_who_is_gone_before_the_answer_is_written_is_no_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    with endpoint.serve(registry(), "127.0.0.1", 0) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as gone:
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            gone.sendall(b"GET /metrics HTTP/1.1\r\n")
        test_a_scrape()
    assert "Traceback" not in capfd.readouterr().err


def test_who_asks_a_letter_at_a_time_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "PATIENCE", 0.5)
    with (
        endpoint.serve(registry(), "127.0.0.1", 0) as port,
        socket.create_connection(("127.0.0.1", port), timeout=0.1) as slow,
    ):
        assert any(_is_over(slow) for _ in range(200))  # which would take twenty seconds


def _is_over(client: socket.socket) -> bool:
    try:
        client.sendall(b"G")
        return not client.recv(1)
    except TimeoutError:
        return False
    except OSError:
        return True


def test_who_does_not_read_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """And delays no other scraper meanwhile."""
    monkeypatch.setattr(endpoint, "PATIENCE", 1.0)
    large = registry()
    for number in range(200):
        prometheus_client.Gauge(f"gauge_{number}", "x" * 100_000, registry=large)
    with (
        endpoint.serve(large, "127.0.0.1", 0) as port,
        socket.create_connection(("127.0.0.1", port), timeout=20) as slow,
    ):
        slow.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert slow.recv(1)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics?name[]=things_total", timeout=20) as answer:
            assert b"things_total 3.0" in answer.read()
        until(lambda: threads() == 0)


def threads() -> int:
    """How many serve a scraper."""
    return sum("process_request" in each.name for each in threading.enumerate())


def until(holds: Callable[[], bool]) -> None:
    for _ in range(1000):
        if holds():
            return
        time.sleep(0.02)
    pytest.fail("it does not come to that")


def test_any_number_of_idle_scrapers_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "MOST_SCRAPERS", 4)
    with ExitStack() as stack, endpoint.serve(registry(), "127.0.0.1", 0) as port:
        idle = [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5)) for _ in range(50)]
        for _ in range(3):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                assert b"things_total 3.0" in answer.read()
        for each in idle[:46]:
            assert each.recv(1) == b""  # it had to go
        until(lambda: threads() <= 4)


class Failing(Collector):
    def collect(self) -> Iterator[Metric]:
        raise ZeroDivisionError


def test_a_scrape_that_fails_is_logged(capfd: pytest.CaptureFixture[str]) -> None:
    failing = prometheus_client.CollectorRegistry(auto_describe=False)
    failures: list[Exception] = []
    failing.register(Failing())
    with endpoint.serve(failing, "127.0.0.1", 0, failures.append) as port:
        for _ in range(2):
            with pytest.raises(urllib.error.HTTPError) as answer:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5)
            assert answer.value.code == 500
            answer.value.close()
    assert [type(each) for each in failures] == [ZeroDivisionError] * 2
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "sent", [b"\x00\xff\r\n\r\n", b"POST / HTTP/1.0\r\n\r\n", b"G" * 100_000, b"GET / HTTP/9.9\r\n\r\n"]
)
def test_what_is_no_scrape_is_refused(sent: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    with (
        endpoint.serve(registry(), "127.0.0.1", 0) as port,
        socket.create_connection(("127.0.0.1", port), timeout=5) as client,
    ):
        client.sendall(sent)
        with suppress(ConnectionResetError):
            assert b"200 OK" not in client.recv(100)
    assert capfd.readouterr().err == ""


def test_an_address_of_the_newer_kind() -> None:
    with (
        endpoint.serve(registry(), "::1", 0) as port,
        urllib.request.urlopen(f"http://[::1]:{port}/metrics", timeout=5) as answer,
    ):
        assert b"things_total 3.0" in answer.read()


def test_a_port_that_is_taken() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(OSError, match="in use"),
        endpoint.serve(registry(), "127.0.0.1", taken.getsockname()[1]),
    ):
        pass
