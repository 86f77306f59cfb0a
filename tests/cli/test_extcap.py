"""`amqproxy extcap`: what Wireshark's tools list and capture by it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from amqproxy.capture.decode import read_decoded
from amqproxy.capture.observed import observed
from amqproxy.capture.warnings import CaptureError
from amqproxy.cli.failure import FAILED, MISUSED
from amqproxy.control.running_proxies import RunningProxy, running_proxies
from amqproxy.taps.observer import ObserverSettings
from tests.cli.outcome import Amqproxy
from tests.cli.process import connected, port_in, start, until
from tests.real import poll

ROOT = Path(__file__).parent.parent.parent


class Proxy:
    def __init__(self, directory: Path) -> None:
        self.socket = directory / "amqproxy.sock"
        config = directory / "amqproxy.toml"
        config.write_text('upstream = "broker"\n[control]\npath = "amqproxy.sock"\nring = "1MiB"\n')
        self.process = start("run", "--listen", "127.0.0.1:0", "--config", str(config))
        self.port = port_in(until(self.process, "listening"))

    def publish(self) -> None:
        connection = connected(self.port)
        channel = connection.channel()
        channel.basic_publish("amq.fanout", "orders", b"seen", pika.BasicProperties(message_id="7"))
        connection.close()


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    proxy = Proxy(tmp_path)
    yield proxy
    proxy.process.kill()
    proxy.process.communicate()


@pytest.fixture
def folder(tmp_path: Path, amqproxy: Amqproxy) -> Path:
    folder = tmp_path / "extcap"
    code, out, _ = amqproxy("extcap", "--install", "--folder", str(folder))
    assert (code, out) == (0, f"{folder}/amqproxy: `tshark -D` and Wireshark list running proxies now\n")
    assert os.access(folder / "amqproxy", os.X_OK)
    return folder


def wireshark(tool: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """One of Wireshark's programs, which looks for extcap programs in the folder.

    Root cannot choose a folder. In a user namespace it is not root, and may read the same files, but not ask the kernel
    about processes: hence the socket is named.
    """
    if not shutil.which(tool):
        pytest.fail("needs tshark") if os.environ.get("CI") == "true" else pytest.skip("needs tshark")
    surroundings = os.environ | {"WIRESHARK_EXTCAP_DIR": str(folder), "PYTHONPATH": str(ROOT), "HOME": str(folder)}
    surroundings["AMQPROXY_CONTROL"] = str(folder.parent / "amqproxy.sock")
    command = [tool, *arguments]
    if os.getuid() == 0:
        command = ["unshare", "--user", *command]
    return subprocess.Popen(command, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_running_proxies_are_found_by_their_processes(proxy: Proxy, tmp_path: Path) -> None:
    own = RunningProxy(proxy.socket, (f"127.0.0.1:{proxy.port}",))
    poll.until(lambda: own in running_proxies(), "the proxy to be found")
    poll.until(lambda: own in running_proxies(proxy.socket), "the proxy to be found")
    assert proxy.socket.parent / "none" not in [each.socket for each in running_proxies(tmp_path / "none")]
    proxy.process.kill()
    proxy.process.wait()
    assert own not in running_proxies(proxy.socket)


def test_the_protocol_of_extcap(proxy: Proxy, amqproxy: Amqproxy) -> None:
    listed = amqproxy("extcap", "--extcap-interfaces", "--extcap-version=4.0").out.splitlines()
    assert listed[0].startswith("extcap {version=")
    assert f"interface {{value=amqproxy:{proxy.socket}}}{{display=amqproxy on 127.0.0.1:{proxy.port}}}" in listed
    assert listed[-1] == "interface {value=amqproxy:}{display=amqproxy, by its control socket}"
    name = f"amqproxy:{proxy.socket}"
    assert amqproxy("extcap", "--extcap-interface", name, "--extcap-dlts").out == (
        "dlt {number=101}{name=RAW}{display=Raw IP}\n"
    )
    options = amqproxy("extcap", "--extcap-interface", name, "--extcap-config").out
    assert "{call=--legs}" in options
    assert "{call=--socket}" not in options
    assert "{call=--socket}" in amqproxy("extcap", "--extcap-interface", "amqproxy:", "--extcap-config").out


def test_wrong_uses_have_a_remedy(amqproxy: Amqproxy, tmp_path: Path) -> None:
    given = ("extcap", "--capture", "--extcap-interface", "amqproxy:")
    for arguments, code, text in (
        (("extcap",), MISUSED, "--install"),
        (given, MISUSED, "--fifo"),
        ((*given, "--fifo", "f"), MISUSED, "name the proxy's control socket"),
        ((*given, "--fifo", "f", "--socket", str(tmp_path / "none")), FAILED, "no amqproxy answers"),
        ((*given, "--fifo", "f", "--extcap-capture-filter", "tcp"), FAILED, "display filter"),
        (("extcap", "--install", "--folder", "/dev/null/x"), FAILED, "cannot be written"),
    ):
        found = amqproxy(*arguments)
        assert (found.code, text in found.err) == (code, True), found.err


def test_tshark_lists_running_proxies(proxy: Proxy, folder: Path) -> None:
    listed, _ = wireshark("tshark", folder, "-D").communicate(timeout=60)
    assert f"amqproxy:{proxy.socket} (amqproxy on 127.0.0.1:{proxy.port})" in listed


def test_tshark_captures_what_a_proxy_relays(proxy: Proxy, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "live.pcapng"
    options = ["-i", f"amqproxy:{proxy.socket}", "-w", str(file)]
    tshark = wireshark("tshark", folder, *options)
    try:
        poll.until(lambda: _seen(proxy, file), "the publish to be captured")
    finally:
        tshark.terminate()
        tshark.communicate(timeout=60)


def _seen(proxy: Proxy, file: Path) -> bool:
    """Publish, and look if that has been captured: it may have come too early."""
    proxy.publish()
    if not file.exists():
        return False
    found = observed(read_decoded([file], lambda notice: None), ObserverSettings(messages=True))
    try:
        return any(report.type == "publish" and report.routing_key == "orders" for report in found)
    except CaptureError:  # its last packet is being written
        return False


def test_a_capture_begins_with_earlier_traffic_and_ends_with_the_reader(proxy: Proxy, tmp_path: Path) -> None:
    proxy.publish()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    arguments = ["--capture", "--extcap-interface", f"amqproxy:{proxy.socket}", "--fifo", str(fifo)]
    command = [sys.executable, "-m", "amqproxy", "extcap", *arguments, "--legs", "once", "--since-start"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as capture:
        with fifo.open("rb") as packets:
            data = b""
            while b"orders" not in data:
                data += packets.read1()  # type: ignore[attr-defined]
        assert data.startswith(b"\n\r\r\n")
        poll.until(lambda: proxy.publish() or capture.poll() is not None, "the capture to end")
        assert capture.returncode == 0
