"""The Debian package as an administrator meets it: installed in a new Debian, started by its systemd, purged again."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.packaging.fresh_debian import FreshDebian
from tests.packaging.stopwatch import Stopwatch

CHANGES = (
    "var/lib/dpkg",
    "var/lib/apt",
    "var/cache",
    "var/log",
    "var/lib/systemd",
    "etc/machine-id",
    "run",
    "tmp",
    "dev",
    "var/tmp",
)
"""What changes in a Debian that installs and boots, whatever it installs."""

EXPOSURE = 2.0
"""The most that systemd-analyze may say."""

ASK = """
import socket, urllib.request
with socket.create_connection(("127.0.0.1", 5673), 10) as client:
    client.sendall(b"AMQP\\0\\0\\x09\\x01")
    print(client.recv(1))
print(urllib.request.urlopen("http://127.0.0.1:9419/healthz", timeout=10).status)
"""


def run(base: FreshDebian, deb: Path, directory: Path) -> None:
    """See all of it with the package `deb`; an AssertionError or Failed says what is wrong."""
    watch = Stopwatch("deb")
    debian = base.copied(directory / "deb")
    debian.install("systemd", "systemd-sysv", "dbus", "python3")
    watch.say("a Debian with systemd and Python")

    before = debian.files()
    shutil.copy(deb, debian.root / "root/amqproxy.deb")
    debian.install("/root/amqproxy.deb")
    (debian.root / "root/amqproxy.deb").unlink()
    version = debian.run("! command -v cc gcc node npm && amqproxy version").strip()
    assert version.endswith("(compiled)"), version
    watch.say(f"installed: {version}, {deb.stat().st_size / 1e6:.1f} MB")

    verified = debian.run("systemd-analyze verify /lib/systemd/system/amqproxy.*")
    assert "amqproxy" not in verified, verified
    security = f"systemd-analyze security --offline=true --threshold={EXPOSURE * 10:.0f} amqproxy.service"
    exposure = debian.run(security).strip().splitlines()[-1]
    watch.say(f"units verified; {exposure.lstrip('→ ')}")

    config = debian.root / "etc/amqproxy/amqproxy.toml"
    own = 'upstream = "broker"\n' + config.read_text()
    config.write_text(own.replace('[upstream]\naddress = "127.0.0.1:5672"\n', ""))
    with debian.booted():
        watch.say("systemd boots")
        debian.run("systemctl enable --now amqproxy || { journalctl -u amqproxy --no-pager; exit 1; }")
        watch.say("amqproxy.service is enabled and started")
        assert debian.run(f"python3 -c '{ASK}'").split() == ["b'\\x01'", "200"]
        owner = debian.run("ps -o user= -p $(systemctl show -P MainPID amqproxy) || true").strip()
        assert owner != "root"
        debian.run("amqproxy control sessions --config /etc/amqproxy/amqproxy.toml")
        debian.run("systemctl reload amqproxy && systemctl is-active amqproxy")
        assert debian.run(f"python3 -c '{ASK}'").split() == ["b'\\x01'", "200"]
        watch.say("it serves, is controlled, and reloads")
        debian.run("systemctl stop amqproxy")
        assert debian.run("systemctl show -P Result amqproxy").strip() == "success"
        config.write_text(config.read_text().replace('"127.0.0.1:5673"', '"fd@amqp"'))
        debian.run("systemctl enable --now amqproxy.socket && systemctl is-active amqproxy.socket")
        assert debian.run(f"python3 -c '{ASK}'").split() == ["b'\\x01'", "200"], "the first client starts it"
        watch.say("it drains and stops, and is started by a client through its socket")
        debian.run("apt-get purge -y -q amqproxy")
        assert "amqproxy" not in debian.run("systemctl list-units --all --no-legend")
    left = {path for path in debian.files() - before if not path.startswith(CHANGES)}
    assert not left, f"left behind: {sorted(left)}"
    watch.say("purged while it ran: nothing is left")
