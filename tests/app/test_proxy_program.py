"""The whole proxy in one process: what it listens on, serves, prints, and leaves behind."""

import errno
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs
from structlog.typing import EventDict

from amqproxy import app
from amqproxy.amqp091.errors import Scope
from amqproxy.app.printing import REPORT_INTERVAL, Printing, PrintSettings
from amqproxy.configuration.config import (
    Config,
    ConfigError,
    ControlConfig,
    Limits,
    ListenerConfig,
    MetricsConfig,
    OpenTelemetryConfig,
)
from amqproxy.configuration.login_config import LoginConfig
from amqproxy.configuration.tls_config import ServerTLS
from amqproxy.configuration.upstream_config import UpstreamConfig
from amqproxy.control.control_client import ControlClient
from amqproxy.control.request_error import RequestError
from amqproxy.rules.access.refuse import Refuse
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.matching.match import Match
from amqproxy.taps.metrics import Metrics as Prometheus
from amqproxy.taps.record import Record
from tests.proxy.stage import HANDSHAKE
from tests.real.ports import free_port
from tests.sockets.certificate_files import Files
from tests.transcripts.words import method, octets

SHUTDOWN = method("connection.close", reply_code=320, reply_text="CONNECTION_FORCED - the proxy is shutting down")
ANYWHERE = ListenerConfig(address="127.0.0.1:0")


class Running:
    """The proxy, and the broker's listening socket."""

    def __init__(self, broker: socket.socket, log: list[EventDict]) -> None:
        self.broker = broker
        self.log = log
        self.is_over = trio.Event()

    async def wait_for_log(self, event: str, times: int = 1) -> None:
        """Wait until it is in the log."""
        while [each["event"] for each in self.log].count(event) < times:  # noqa: ASYNC110
            await trio.sleep(0.01)

    def ports(self, event: str = "listening") -> list[int]:
        return [int(each["address"].rpartition(":")[2]) for each in self.log if each["event"] == event]

    async def opened(self) -> tuple[trio.SocketStream, trio.SocketStream]:
        """A client and its broker's end, with an open connection."""
        client = await trio.open_tcp_stream("127.0.0.1", self.ports()[0])
        broker: trio.SocketStream | None = None
        for line in HANDSHAKE.strip().splitlines():
            arrow, _, frames = line.strip().partition(" ")
            if arrow == ">>":
                await client.send_all(octets(frames))
            if broker is None:
                accepted, _ = await trio.to_thread.run_sync(self.broker.accept)
                broker = trio.SocketStream(trio.socket.from_stdlib_socket(accepted))
            if arrow == "<<":
                await broker.send_all(octets(frames))
            await receive(broker if arrow == ">>" else client, len(octets(frames)))
        assert broker is not None
        return client, broker


async def receive(stream: trio.SocketStream, count: int) -> bytes:
    data = b""
    with trio.fail_after(5):
        while len(data) < count:
            data += await stream.receive_some(count - len(data)) or pytest.fail("closed")
    return data


@asynccontextmanager
async def running(
    render: Callable[[Record], str] | None = None, reread: Callable[[], Config] | None = None, **changes: Any
) -> AsyncIterator[Running]:
    """The proxy from its first word to its last; it is drained at the end of the block."""
    with socket.create_server(("127.0.0.1", 0)) as broker, capture_logs() as log:
        upstream = UpstreamConfig(address=f"127.0.0.1:{broker.getsockname()[1]}")
        limits = Limits(drain_timeout=1.0, close_timeout=1.0)
        config = Config(**{"listen": (ANYWHERE,), "upstream": upstream, "limits": limits, **changes})
        proxy = Running(broker, log)

        async def run() -> None:
            await app.run(config, reread, PrintSettings(render=render) if render else None)
            proxy.is_over.set()

        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run)
                await proxy.wait_for_log("listening")
                yield proxy
                if not proxy.is_over.is_set():
                    signal.raise_signal(signal.SIGTERM)


async def test_from_the_first_word_to_the_last() -> None:
    async with running() as proxy:
        client, broker = await proxy.opened()
        signal.raise_signal(signal.SIGTERM)
        assert await receive(client, len(SHUTDOWN)) == SHUTDOWN
        await client.send_all(octets("connection.close-ok"))
        assert await receive(broker, len(SHUTDOWN)) == SHUTDOWN
        await broker.send_all(octets("connection.close-ok"))
        await proxy.is_over.wait()
        for stream in (client, broker):
            await stream.aclose()
    events = [event["event"] for event in proxy.log]
    assert events == ["listening", "connection open", "draining", "connection closed", "stopped"]


async def test_a_second_signal() -> None:
    with pytest.RaisesGroup(KeyboardInterrupt):
        async with running(limits=Limits(drain_timeout=60.0, close_timeout=60.0)) as proxy:
            client, broker = await proxy.opened()
            signal.raise_signal(signal.SIGINT)
            await receive(client, len(SHUTDOWN))  # which the client does not answer
            signal.raise_signal(signal.SIGINT)
            for stream in (client, broker):
                assert await stream.receive_some() == b""
                await stream.aclose()
            proxy.is_over.set()


async def test_several_listeners() -> None:
    async with running(listen=(ANYWHERE, ANYWHERE)) as proxy:
        await proxy.wait_for_log("listening", times=2)
        assert len(set(proxy.ports())) == 2
        for port in proxy.ports():
            await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()


async def test_metrics_are_served() -> None:
    async with running(metrics=MetricsConfig(address="127.0.0.1:0")) as proxy:
        (port,) = proxy.ports("metrics")
        client, broker = await proxy.opened()
        text = await trio.to_thread.run_sync(scraped, f"http://127.0.0.1:{port}/metrics")
        values = {
            (sample.name, sample.labels.get("method")): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
        assert values["amqproxy_connections", None] == 1
        assert values["amqproxy_frames_total", "connection.open-ok"] == 1
        for stream in (client, broker):
            await stream.aclose()


def scraped(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return str(answer.read().decode())


async def test_listeners_are_changed_by_a_reload(tmp_path: Path) -> None:
    """Clients that are connected stay as they are; further ones use TLS, and log in at the proxy."""
    files = Files(tmp_path)
    tls = ServerTLS(certificate=files.server, key=files.server_key, client_ca=files.ca)
    secure = ListenerConfig(address=ANYWHERE.address, tls=tls, login="apps")
    logins = {"apps": LoginConfig(mechanisms=("EXTERNAL",))}
    wrong = ServerTLS(certificate=files.server, key=files.client_key)
    found = [
        Config(listen=(ListenerConfig(address=ANYWHERE.address, tls=wrong),)),
        Config(listen=(secure,), logins=logins),
    ]
    async with running(reread=lambda: found.pop(0)) as proxy:
        client, broker = await proxy.opened()
        signal.raise_signal(signal.SIGHUP)
        await proxy.wait_for_log("rules not reloaded")
        signal.raise_signal(signal.SIGHUP)
        await proxy.wait_for_log("listener reloaded")
        await proxy.wait_for_log("restart needed")
        context = ssl.create_default_context(cafile=files.ca)
        context.load_cert_chain(files.client, files.client_key)
        stream = await trio.open_ssl_over_tcp_stream("localhost", proxy.ports()[0], ssl_context=context)
        await stream.send_all(octets("header"))
        with trio.fail_after(5):
            assert b"EXTERNAL" in await stream.receive_some(), "the proxy's own connection.start"
        await trio.aclose_forcefully(stream)
        await client.send_all(octets("heartbeat"))
        assert await receive(broker, len(octets("heartbeat"))) == octets("heartbeat")
        for end in (client, broker):
            await end.aclose()


async def test_listeners_come_and_go_by_a_reload() -> None:
    """Clients of one that goes stay; an address that is taken changes nothing."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        further = ListenerConfig(address=f"127.0.0.1:{free_port()}")
        found = [
            Config(listen=(further, ListenerConfig(address=f"127.0.0.1:{number}"))),
            Config(listen=(further,)),
        ]
        async with running(reread=lambda: found.pop(0)) as proxy:
            first = proxy.ports()[0]
            client, broker = await proxy.opened()
            signal.raise_signal(signal.SIGHUP)
            await proxy.wait_for_log("rules not reloaded")
            with pytest.raises(OSError, match="failed"):
                await trio.open_tcp_stream("127.0.0.1", int(further.address.rpartition(":")[2]))
            signal.raise_signal(signal.SIGHUP)
            await proxy.wait_for_log("listener closed")
            with pytest.raises(OSError, match="failed"):
                await trio.open_tcp_stream("127.0.0.1", first)
            stream = await trio.open_tcp_stream("127.0.0.1", int(further.address.rpartition(":")[2]))
            await stream.aclose()
            await client.send_all(octets("heartbeat"))
            assert await receive(broker, len(octets("heartbeat"))) == octets("heartbeat")
            for end in (client, broker):
                await end.aclose()


async def test_rules_are_read_again_and_counted() -> None:
    found: list[Config | Exception] = [
        ConfigError("rules[0]: no"),
        RecursionError("an unforeseen file"),
        Config(
            listen=(ANYWHERE,),
            rules=(Refuse(name="no", match=Match(method="channel.open"), scope=Scope.CONNECTION, code=530),),
        ),
    ]

    def reread() -> Config:
        config = found.pop(0)
        if isinstance(config, Exception):
            raise config
        return config

    async with running(metrics=MetricsConfig(address="127.0.0.1:0"), reread=reread) as proxy:
        client, broker = await proxy.opened()
        signal.raise_signal(signal.SIGHUP)
        await proxy.wait_for_log("rules not reloaded")
        signal.raise_signal(signal.SIGHUP)
        await proxy.wait_for_log("rules not reloaded", times=2)
        signal.raise_signal(signal.SIGHUP)
        await proxy.wait_for_log("rules reloaded")
        await client.send_all(octets("1: channel.open"))
        head = await receive(client, 13)
        assert head[7:13] == bytes((0, 10, 0, 50)) + (530).to_bytes(2)
        (port,) = proxy.ports("metrics")
        text = await trio.to_thread.run_sync(scraped, f"http://127.0.0.1:{port}/metrics")
        assert 'amqproxy_rule_hits_total{rule="no"} 1.0' in text
        assert 'amqproxy_rule_verdicts_total{rule="no",verdict="refused"} 1.0' in text
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RuleSet, "counts", lambda rules: 1 / 0)
            text = await trio.to_thread.run_sync(scraped, f"http://127.0.0.1:{port}/metrics")
        assert "amqproxy_rule_hits_total{" not in text
        assert "amqproxy_connections_accepted_total 1.0" in text
        await proxy.wait_for_log("rules not counted")
        for stream in (client, broker):
            await stream.aclose()


async def test_what_passes_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    async with running(lambda record: f"{record.sender} {record.method or record.type}") as proxy:
        client, broker = await proxy.opened()
        for stream in (client, broker):
            await stream.aclose()
    assert capfd.readouterr().out.splitlines() == [
        "client protocol-header",
        "server connection.start",
        "client connection.start-ok",
        "server connection.tune",
        "client connection.tune-ok",
        "client connection.open",
        "server connection.open-ok",
    ]


async def test_what_could_not_be_printed_is_logged_now_and_then(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    async def full(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(trio.to_thread, "run_sync", full)
    printing = Printing(PrintSettings(render=str), Limits(print_backlog=2), Prometheus())
    session = SimpleNamespace(number=1, name="a-b")
    with capture_logs() as log:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(printing.run, lambda: None)
            nursery.start_soon(printing.report_losses)
            for _ in range(100):
                printing.tap.saw_protocol_header(session, b"AMQP")
                await trio.sleep(0.1)
            await trio.sleep(5)
            for _ in range(5):
                printing.tap.saw_protocol_header(session, b"AMQP")
            await trio.sleep(10)
            nursery.cancel_scope.cancel()
    assert [event["count"] for event in log] == [100, 5]
    assert log[0]["reason"] == "No space left on device"


async def test_what_is_not_read_is_logged(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """A reader that never reads blocks the writing thread for ever; records without room are counted in the log."""

    async def stuck(*arguments: object, **options: object) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(trio.to_thread, "run_sync", stuck)
    printing = Printing(PrintSettings(render=str), Limits(print_backlog=2), Prometheus())
    session = SimpleNamespace(number=1, name="a-b")
    with capture_logs() as log:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(printing.run, lambda: None)
            nursery.start_soon(printing.report_losses)
            for _ in range(10):
                printing.tap.saw_protocol_header(session, b"AMQP")
                await trio.testing.wait_all_tasks_blocked()
            await trio.sleep(2.5 * REPORT_INTERVAL)
            nursery.cancel_scope.cancel()
    assert [(event["event"], event["count"]) for event in log] == [("records not printed", 7)]


async def test_addresses_that_are_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(app.AddressUnavailable, match=f"^cannot listen on {address}: Address already in use$"):
            await app.run(
                Config(listen=(ANYWHERE, ListenerConfig(address=address)), metrics=MetricsConfig(address="127.0.0.1:0"))
            )
        with pytest.raises(
            app.AddressUnavailable, match=f"^cannot serve metrics on {address}: Address already in use$"
        ):
            await app.run(Config(listen=(ANYWHERE,), metrics=MetricsConfig(address=address)))


async def test_files_that_are_not_there() -> None:
    tls = ServerTLS(certificate="missing.pem", key="missing.key")
    with pytest.raises(ConfigError, match=r"missing\.pem"):
        await app.run(Config(listen=(ListenerConfig(address="127.0.0.1:0", tls=tls),)))


async def test_a_record_that_cannot_be_rendered_is_no_client_s_trouble() -> None:
    def render(record: Record) -> str:
        raise ZeroDivisionError("in the text of a record")

    async with running(render) as proxy:
        client, broker = await proxy.opened()
        await proxy.wait_for_log("records not printed")
        await client.send_all(octets("heartbeat"))
        await receive(broker, len(octets("heartbeat")))
        for stream in (client, broker):
            await stream.aclose()


async def test_the_control_socket_is_served_and_reloads(tmp_path: Path) -> None:
    path = tmp_path / "control"
    rules: list[Config | ConfigError] = [
        ConfigError("rules[0]: no"),
        Config(listen=(ANYWHERE,), rules=(Refuse(name="one"),)),
    ]

    def reread() -> Config:
        found = rules.pop(0)
        if isinstance(found, ConfigError):
            raise found
        return found

    def asked(request: str) -> Any:
        with ControlClient(path) as counterpart:
            return counterpart.ask(request)

    async with running(reread=reread, control=ControlConfig(path=str(path))):
        with pytest.raises(RequestError, match="no") as wrong:
            await trio.to_thread.run_sync(asked, "reload")
        assert wrong.value.name == "not-reloaded"
        assert (await trio.to_thread.run_sync(asked, "reload"))["rules"] == 1
        assert (await trio.to_thread.run_sync(asked, "sessions"))["sessions"] == []
    assert not path.exists()


async def test_a_control_socket_that_cannot_be_had(tmp_path: Path) -> None:
    (tmp_path / "control").touch()
    config = Config(listen=(ANYWHERE,), control=ControlConfig(path=str(tmp_path / "control")))
    with pytest.raises(app.AddressUnavailable, match="which is no socket"):
        await app.run(config)


async def test_opentelemetry_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "amqproxy.telemetry.telemetry", None)
    with pytest.raises(ConfigError, match=r"pip install .amqproxy\[otel\]"):
        await app.run(Config(listen=(ANYWHERE,), opentelemetry=OpenTelemetryConfig()))


def test_opentelemetry_is_not_loaded_unless_it_is_asked_for() -> None:
    program = "import sys, amqproxy.app; sys.exit('opentelemetry' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
