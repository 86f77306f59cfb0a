"""The Debian package as an administrator meets it: installed in a new Debian, started by its systemd, purged again."""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from pathlib import Path

import trustme

from tests.packaging.fresh_debian import Failed, FreshDebian
from tests.packaging.stopwatch import Stopwatch
from tests.real.poll import until

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

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "run-as-a-service.md"
CREDENTIALS = re.compile(r"^```ini\n# systemctl edit amqproxy\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CREDENTIAL = re.compile(r"^LoadCredential=([\w.-]+):(\S+)$", re.MULTILINE)
PASSWORD = "a-password-for-the-dashboard"
"""Of those credentials: found nowhere else."""

WITH_CREDENTIALS = """
[[listen]]
address = "127.0.0.1:5671"
tls = { certificate = "/etc/amqproxy/server.pem", key = "/run/credentials/amqproxy.service/server.key" }

[dashboard]
password_file = "/run/credentials/amqproxy.service/dashboard-password"
"""

ASK_WITH_CREDENTIALS = """
import json, socket, ssl, urllib.request
context = ssl.create_default_context(cafile="/root/authority.pem")
with context.wrap_socket(socket.create_connection(("127.0.0.1", 5671), 10), server_hostname="localhost") as client:
    client.sendall(b"AMQP\\0\\0\\x09\\x01")
    print(client.recv(1))
login = json.dumps({"password": open("/root/secrets/dashboard-password").read()}).encode()
request = urllib.request.Request("http://127.0.0.1:8672/api/v1/session", login, {"Content-Type": "application/json"})
print(json.load(urllib.request.urlopen(request, timeout=10))["is_logged_in"])
"""

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
    version = debian.run("! command -v cc gcc node npm && amqproxy-mitm version").strip()
    assert version.endswith("(compiled)"), version
    watch.say(f"installed: {version}, {deb.stat().st_size / 1e6:.1f} MB")

    shipped = "man/man1/amqproxy.1.gz bash-completion/completions/amqproxy zsh/vendor-completions/_amqproxy"
    debian.run(f"cd /usr/share && zgrep -q decode {shipped} fish/vendor_completions.d/amqproxy.fish")
    verified = debian.run("systemd-analyze verify --man=no /lib/systemd/system/amqproxy.*")
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
        use_credentials(debian, config)
        watch.say("key and password come from systemd as credentials, and are in no argument, variable or log")
        debian.run("systemctl stop amqproxy")
        assert debian.run("systemctl show -P Result amqproxy").strip() == "success"
        config.write_text(config.read_text().replace('"127.0.0.1:5673"', '"fd@amqp"'))
        debian.run("systemctl enable --now amqproxy.socket && systemctl is-active amqproxy.socket")
        assert debian.run(f"python3 -c '{ASK}'").split() == ["b'\\x01'", "200"], "the first client starts it"
        watch.say("it drains and stops, and is started by a client through its socket")
        debian.run("apt-get purge -y -q amqproxy-mitm")
        assert "amqproxy" not in debian.run("systemctl list-units --all --no-legend")
    left = {path for path in debian.files() - before if not path.startswith(CHANGES)}
    assert not left, f"left behind: {sorted(left)}"
    watch.say("purged while it ran: nothing is left")


def use_credentials(debian: FreshDebian, config: Path) -> None:
    """Do what the page about the service says, with secrets in the files that it names; and take it all back."""
    (drop_in,) = CREDENTIALS.findall(PAGE.read_text())
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    secrets = {"dashboard-password": PASSWORD.encode(), "server.key": certificate.private_key_pem.bytes()}
    made = {debian.root / path.lstrip("/"): secrets[name] for name, path in CREDENTIAL.findall(drop_in)}
    made[debian.root / "etc/systemd/system/amqproxy.service.d/override.conf"] = drop_in.encode()
    made[debian.root / "etc/amqproxy/server.pem"] = b"".join(each.bytes() for each in certificate.cert_chain_pems)
    made[debian.root / "root/authority.pem"] = authority.cert_pem.bytes()
    before = config.read_text()
    parents = {path.parent for path in made if not path.parent.exists()}
    for parent in parents:
        parent.mkdir(mode=0o755 if "systemd" in parent.parts else 0o700)
    for path, content in made.items():
        path.write_bytes(content)
        path.chmod(0o600 if path.parent.name == "secrets" else 0o644)
    config.write_text(before + WITH_CREDENTIALS)
    debian.run("systemctl daemon-reload && systemctl restart amqproxy")

    def answer() -> list[str]:
        with suppress(Failed):
            return debian.run(f"python3 -c '{ASK_WITH_CREDENTIALS}'").split()
        return []

    assert until(answer, "the dashboard to listen") == ["b'\\x01'", "True"]
    shown = debian.run("cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'; journalctl")
    assert PASSWORD not in shown
    config.write_text(before)
    for path in made:
        path.unlink()
    for parent in parents:
        parent.rmdir()
    debian.run("systemctl daemon-reload && systemctl restart amqproxy")
