"""A private RabbitMQ node: its own ports, cookie, epmd and directories. A system node is never touched."""

import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from amqproxy.rabbitmq.profile import PROFILES, Profile
from tests.real.poll import until
from tests.real.ports import free_port
from tests.real.rabbitmq_installation import SYSTEM, Installation
from tests.real.raw import PROTOCOL_HEADER, Frame, Peer
from tests.real.require import require_module

ENDS_WITH_US = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
"""Before a command: the kernel ends it with the process that started it.

One of several processes of tests is killed when a run is broken off and it takes long to tear its fixtures down.
"""

START_DEADLINE = 120.0
CTL_DEADLINE = 60.0


def profile_of(start: Frame) -> Profile:
    """The behaviours of the version that a connection.start names."""
    version = re.search(rb"\x07versionS\0\0\0.([0-9]+\.[0-9]+)", start.payload, re.DOTALL)
    assert version
    return PROFILES[version[1].decode()]


class RabbitMQ:
    """One node, started by `start` and gone after `stop`; `kill` and `start` again keep its data."""

    def __init__(
        self,
        directory: Path,
        installation: Installation = SYSTEM,
        settings: Mapping[str, object] | None = None,
        plugins: Sequence[str] = (),
    ) -> None:
        """Everything the node writes goes below `directory`, which must be empty; `settings` are of rabbitmq.conf."""
        self.directory = directory
        self.enabled = plugins
        self.settings = settings or {}
        self.installation = installation
        self.server, self.control = installation.script("rabbitmq-server"), installation.script("rabbitmqctl")
        self.epmd_program = installation.epmd
        self.port, self.tls_port, self.distribution_port, self.epmd_port = (free_port() for _ in range(4))
        self.node: subprocess.Popen[bytes] | None = None
        self.epmd: subprocess.Popen[bytes] | None = None
        self.certificates: dict[str, Path] = {}
        self.authority: Any = None
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("RABBITMQ_", "ERL_"))}
        self.environment = inherited | {
            "PATH": installation.path,
            "RABBITMQ_PLUGINS_DIR": installation.plugins,
            "HOME": str(directory),
            "LANG": "C.UTF-8",
            "ERL_EPMD_PORT": str(self.epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_CRASH_DUMP_SECONDS": "0",  # none, which would be written into the current directory
            "RABBITMQ_NODENAME": f"amqproxy-{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self.distribution_port),
            "RABBITMQ_CONF_ENV_FILE": str(directory / "rabbitmq-env.conf"),
            "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(directory / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(directory / "log"),
            "RABBITMQ_PID_FILE": str(directory / "pid"),
            # The script then becomes the node instead of waiting for it, so the process id is the node's own.
            "RUNNING_UNDER_SYSTEMD": "true",
        }

    @cached_property
    def profile(self) -> Profile:
        """The behaviours of its version, for which rabbitmqctl takes a minute on a loaded machine."""
        with Peer.connect(self.port) as peer:
            peer.send(PROTOCOL_HEADER)
            return profile_of(peer.expect(10, 10))

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/%2F"

    @property
    def log(self) -> str:
        """Return the node's output so far, for the message of a failing test."""
        written = [self.directory / "output", *sorted((self.directory / "log").glob("*.log"))]
        return "\n".join(each.read_text(errors="replace") for each in written if each.exists())

    def configure(self) -> None:
        """Writes the configuration and the keys."""
        self.directory.joinpath("log").mkdir()
        self.authority = authority = require_module("trustme").CA()
        issued = authority.issue_cert("localhost", "127.0.0.1")
        self.certificates = {name: self.directory / f"{name}.pem" for name in ("authority", "certificate", "key")}
        authority.cert_pem.write_to_path(self.certificates["authority"])
        issued.private_key_pem.write_to_path(self.certificates["key"])
        for blob in issued.cert_chain_pems:
            blob.write_to_path(self.certificates["certificate"], append=True)
        settings: dict[str, object] = {
            "listeners.tcp.1": f"127.0.0.1:{self.port}",
            "listeners.ssl.1": f"127.0.0.1:{self.tls_port}",
            "ssl_options.cacertfile": self.certificates["authority"],
            "ssl_options.certfile": self.certificates["certificate"],
            "ssl_options.keyfile": self.certificates["key"],
            "ssl_options.verify": "verify_peer",
            "ssl_options.fail_if_no_peer_cert": "false",
            "auth_mechanisms.1": "PLAIN",
            "auth_mechanisms.2": "AMQPLAIN",
            "auth_mechanisms.3": "EXTERNAL",  # as soon as its plugin is enabled
            "auth_mechanisms.4": "ANONYMOUS",  # from version 4.0 on
            "disk_free_limit.absolute": "1MB",
            "log.file.level": "info",
            "log.console": "false",
        }
        lines = [f"{key} = {value}\n" for key, value in {**settings, **self.settings}.items()]
        self.directory.joinpath("rabbitmq.conf").write_text("".join(lines))
        self.directory.joinpath("rabbitmq-env.conf").write_text("")
        self.directory.joinpath("advanced.config").write_text("[].\n")
        self.directory.joinpath("enabled_plugins").write_text(f"[{','.join(self.enabled)}].\n")
        cookie = self.directory / ".erlang.cookie"
        cookie.write_text(secrets.token_hex(20))
        cookie.chmod(0o600)

    def start(self) -> None:
        """Returns once the node has completed an AMQP handshake."""
        if not self.certificates:
            self.configure()
        if self.epmd is None:
            # Started here and not by the node, so that there is a process id to end.
            command = [*ENDS_WITH_US, self.epmd_program, "-port", str(self.epmd_port), "-address", "127.0.0.1"]
            self.epmd = subprocess.Popen(command, env=self.environment, start_new_session=True)
            self._await_epmd()
        with self.directory.joinpath("output").open("ab") as output:
            self.node = subprocess.Popen(
                [*ENDS_WITH_US, self.server],
                env=self.environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        end = time.monotonic() + START_DEADLINE
        while not self.answers():
            if self.node.poll() is not None or time.monotonic() > end:
                message = f"RabbitMQ did not start (exit code {self.node.returncode})\n{self.log[-4000:]}"
                self.stop()
                raise RuntimeError(message)
            time.sleep(0.1)

    def _await_epmd(self) -> None:
        """Return once epmd listens: a node that finds none starts a daemon, which nobody would end."""

        def listens() -> bool:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.epmd_port), 1):
                return True
            return False

        until(listens, "epmd to listen")

    def answers(self) -> bool:
        """Whether an AMQP connection can be opened now."""
        try:
            Peer.opened(self.port).stream.close()
        except (OSError, AssertionError, ValueError):
            return False
        return True

    def ctl(self, *arguments: str) -> str:
        """The output of `rabbitmqctl`; raises if it fails."""
        done = subprocess.run(
            [self.control, "--quiet", "--timeout", str(int(CTL_DEADLINE)), *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=CTL_DEADLINE * 2,
        )
        if done.returncode:
            raise RuntimeError(f"rabbitmqctl {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def kill(self) -> None:
        """SIGKILL: the sockets close because the kernel closes them."""
        if self.node is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.node.pid, signal.SIGKILL)
            self.node.wait()
            self.node = None

    def stop(self) -> None:
        """Nothing of the node runs afterwards. It has nothing to keep, so it is not asked politely."""
        self.kill()
        if self.epmd is not None:
            self.epmd.kill()
            self.epmd.wait()
            self.epmd = None


@contextlib.contextmanager
def running(
    directory: Path,
    installation: Installation = SYSTEM,
    settings: Mapping[str, object] | None = None,
    plugins: Sequence[str] = (),
) -> Iterator[RabbitMQ]:
    """A node that runs for the duration of the block."""
    node = RabbitMQ(directory, installation, settings, plugins)
    try:
        node.start()
        yield node
    finally:
        node.stop()
