"""What systemd passes to a service, and is told by it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from amqproxy.process import systemd
from amqproxy.process.systemd import Systemd


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """Where systemd would be told."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as found:
        found.bind(str(tmp_path / "notify"))
        found.settimeout(5)
        yield found


def passing(monkeypatch: pytest.MonkeyPatch, passed: socket.socket) -> dict[str, str]:
    """The environment of a process to which this socket is passed."""
    monkeypatch.setattr(systemd, "FIRST", passed.fileno())
    return {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid()), "LISTEN_FDNAMES": "amqp"}


def test_a_passed_socket_is_found_by_name_or_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("amqp", None):
        listener = socket.create_server(("127.0.0.1", 0))
        number = listener.fileno()
        environment = passing(monkeypatch, listener)
        found = Systemd(environment).sockets(name or str(number))
        assert [each.getsockname() for each in found] == [listener.getsockname()]
        assert not os.get_inheritable(number)
        assert environment == {}, "children would take it for theirs"
        listener.detach()
        found[0].close()


def test_a_socket_is_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        passed = Systemd(passing(monkeypatch, listener))
        passed.sockets("amqp")[0].detach()
        with pytest.raises(ValueError, match=r"no socket amqp was passed: one comes from a \.socket unit"):
            passed.sockets("amqp")


def test_sockets_of_another_process_are_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        environment = passing(monkeypatch, listener) | {"LISTEN_PID": "1"}
        with pytest.raises(ValueError, match="no socket amqp"):
            Systemd(environment).sockets("amqp")


def test_a_socket_that_does_not_listen_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        with pytest.raises(ValueError, match="does not listen for streams"):
            Systemd(passing(monkeypatch, datagrams)).sockets("amqp")
        datagrams.getsockname()  # it is still open


@pytest.mark.parametrize(
    "environment", [{}, {"LISTEN_FDS": "-1"}, {"LISTEN_FDS": "x", "LISTEN_PID": "y", "WATCHDOG_USEC": "z"}]
)
def test_without_systemd_nothing_is_told(environment: dict[str, str]) -> None:
    alone = Systemd(environment)
    alone.ready()
    alone.stopping(1)
    assert not alone.is_watching


def test_states_are_told(manager: socket.socket) -> None:
    told = Systemd({"NOTIFY_SOCKET": manager.getsockname()})
    told.ready()
    told.status("3 connections")
    told.stopping(30.0)
    assert [manager.recv(99) for _ in range(3)] == [
        b"READY=1",
        b"STATUS=3 connections",
        b"STOPPING=1\nEXTEND_TIMEOUT_USEC=30000000",
    ]
    told.reloading()
    assert manager.recv(99).startswith(b"RELOADING=1\nMONOTONIC_USEC=")


def test_a_name_may_be_abstract() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("")  # the system chooses one
        name = manager.getsockname().decode().replace("\0", "@")
        Systemd({"NOTIFY_SOCKET": name}).ready()
        manager.settimeout(5)
        assert manager.recv(99) == b"READY=1"


def test_a_manager_that_does_not_read_holds_nothing_up(manager: socket.socket) -> None:
    told = Systemd({"NOTIFY_SOCKET": manager.getsockname()})
    for _ in range(10_000):
        told.ready()
    Systemd({"NOTIFY_SOCKET": "/nowhere"}).ready()


async def test_signs_of_life_come_twice_as_often_as_asked(autojump_clock: MockClock, manager: socket.socket) -> None:
    watched = Systemd(
        {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}
    )
    with trio.move_on_after(100):
        await watched.live()
    manager.setblocking(False)
    signs = 0
    while True:
        try:
            assert manager.recv(99) == b"WATCHDOG=1"
        except BlockingIOError:
            break
        signs += 1
    assert signs == 7  # at 0, 15, … 90


ACTIVATED = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid()), "LISTEN_FDNAMES": "amqp"}
os.execv(sys.executable, [sys.executable, "-m", "amqproxy", *sys.argv[2:]])
"""


@pytest.mark.once
def test_the_proxy_serves_a_socket_that_systemd_holds(manager: socket.socket, tmp_path: Path) -> None:
    config = tmp_path / "amqproxy.toml"
    config.write_text('upstream = "broker"\n[[listen]]\naddress = "fd@amqp"\n')
    manager.settimeout(60)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        early = socket.create_connection(listener.getsockname())  # before there is a proxy: it waits
        number = listener.fileno()
        proxy = subprocess.Popen(
            [sys.executable, "-c", ACTIVATED, str(number), "run", "--config", str(config)],
            pass_fds=[number],
            env=os.environ | {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "1000000"},
            stderr=subprocess.DEVNULL,
        )
        with early, proxy:
            told = [manager.recv(99) for _ in range(2)]
            assert sorted(told) == [b"READY=1", b"WATCHDOG=1"]
            early.settimeout(60)
            early.sendall(b"AMQP\0\0\x09\x01")
            assert early.recv(1) == b"\x01"
            proxy.send_signal(signal.SIGHUP)
            assert until(manager, b"RELOADING=1\n")
            assert until(manager, b"READY=1")
            proxy.send_signal(signal.SIGTERM)
            assert until(manager, b"STOPPING=1\n").endswith(b"EXTEND_TIMEOUT_USEC=45000000")


@pytest.mark.once
def test_a_socket_that_was_not_passed_is_an_error(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "amqproxy", "run", "--listen", "fd@amqp"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert "cannot listen on fd@amqp: no socket amqp was passed: one comes from a .socket unit with" in run.stderr


def until(manager: socket.socket, beginning: bytes) -> bytes:
    """The next thing told that begins so."""
    while not (told := manager.recv(99)).startswith(beginning):
        assert told == b"WATCHDOG=1"
    return told


@pytest.mark.once
@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_the_unit_is_right_and_hardened() -> None:
    units = Path(__file__).parents[2] / "packaging" / "systemd"
    checked = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", units / "amqproxy.service"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout  # exposure is at most 2.0
