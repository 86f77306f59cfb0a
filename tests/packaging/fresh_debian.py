"""A new Debian, made by debootstrap and entered as root through namespaces, with which mounts and processes end.

`SUITE` and `MIRROR` of the environment are those of tests/fresh_debian.sh. Of this machine it has resolv.conf and the
certificate authorities, and nothing else.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.real.poll import until

SUITE = os.environ.get("SUITE", "bookworm")
MIRROR = os.environ.get("MIRROR", "http://deb.debian.org/debian")
PYTHONS = {"bookworm": "3.11", "trixie": "3.13"}
"""Python's version in a release of Debian."""

AUTHORITIES = "etc/ssl/certs/ca-certificates.crt"

ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
    "SSL_CERT_FILE": f"/{AUTHORITIES}",
    "PIP_CERT": f"/{AUTHORITIES}",
    "NODE_EXTRA_CA_CERTS": f"/{AUTHORITIES}",
    "PIP_DEFAULT_TIMEOUT": "180",
}

ENTER = r"""
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount -t sysfs -o ro sysfs "$1/sys"
mount -t tmpfs tmpfs "$1/dev"
for device in null zero full random urandom tty; do
    touch "$1/dev/$device"
    mount --bind "/dev/$device" "$1/dev/$device"
done
ln -s /proc/self/fd "$1/dev/fd"
ln -s /proc/self/fd/0 "$1/dev/stdin"
ln -s /proc/self/fd/1 "$1/dev/stdout"
ln -s /proc/self/fd/2 "$1/dev/stderr"
mkdir "$1/dev/shm" "$1/dev/pts"
mount -t tmpfs tmpfs "$1/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$1/dev/pts"
ln -s pts/ptmx "$1/dev/ptmx"
ip link set lo up
"""
"""What each program in it finds mounted; `$1` is its root."""

BOOT = r"""
mount -t tmpfs tmpfs "$1/run"
mount -t tmpfs tmpfs "$1/sys/fs/cgroup"
if [ -d /sys/fs/cgroup/systemd ]; then
    mkdir "$1/sys/fs/cgroup/systemd" "$1/sys/fs/cgroup/unified"
    mount -t cgroup -o none,name=systemd,xattr cgroup "$1/sys/fs/cgroup/systemd"
    mount -t cgroup2 cgroup2 "$1/sys/fs/cgroup/unified"
else
    mount -t cgroup2 cgroup2 "$1/sys/fs/cgroup"
fi
cd "$1"
pivot_root . . # as systemd mounts for its services what it finds at the root of its mounts
umount -l .
mount --make-rshared / # as on a machine: credentials are mounted in one namespace, and seen in the others
exec env -i container=chroot PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd
"""

CGROUPS = ("/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified")
"""Where systemd's own hierarchies are on a machine with both versions of cgroups; with the second alone, one above."""


class Failed(Exception):
    """A program in the Debian ended with an error; its output is the text."""


class FreshDebian:
    """The one in the directory `root`, which is made of `suite` if it is not there."""

    def __init__(self, root: Path, suite: str = SUITE) -> None:
        self.root = root
        self.environment = dict(ENVIRONMENT)
        self._entered: list[str] = []
        if not (root / "etc/debian_version").exists():
            with root.with_suffix(".log").open("w") as log:
                command = ["debootstrap", "--variant=minbase", "--include=ca-certificates", suite, str(root), MIRROR]
                subprocess.run(command, stdout=log, stderr=log, check=True)
            shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
            shutil.copy(f"/{AUTHORITIES}", root / AUTHORITIES)
            (root / "etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost ip6-localhost\n")

    def copied(self, root: Path) -> FreshDebian:
        """Another one, like this."""
        subprocess.run(["rm", "-rf", "--one-file-system", root], check=True)
        subprocess.run(["cp", "-a", self.root, root], check=True)
        return FreshDebian(root)

    def command(
        self, command: str, *, has_network: bool = True, user: str = "", is_read_only: bool = False
    ) -> list[str]:
        """The command line that runs a shell's `command` in it; `user` is "UID:GID", without any capability."""
        if self._entered:
            return [*self._entered, "/bin/sh", "-ec", f"cd /\n{command}"]
        unshare = ["unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child"]
        enter = ENTER if not is_read_only else ENTER + 'mount -o remount,bind,ro "$1"\nmount -t tmpfs tmpfs "$1/tmp"\n'
        words = ["/bin/sh", "-ec", command]
        if user:
            uid, _, gid = user.partition(":")
            drop = ["--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
            words = ["setpriv", f"--reuid={uid}", f"--regid={gid}", *drop, *words]
        environment = [f"{name}={value}" for name, value in self.environment.items()]
        script = f'{enter}exec chroot "$1" env -i {shlex.join([*environment, *words])}'
        return [*unshare, *([] if has_network else ["--net"]), "/bin/sh", "-c", script, "sh", str(self.root)]

    def run(self, command: str, *, has_network: bool = True, user: str = "", is_read_only: bool = False) -> str:
        """What the command writes; it raises Failed if it fails."""
        words = self.command(command, has_network=has_network, user=user, is_read_only=is_read_only)
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode:
            raise Failed(f"{command}\nended with {done.returncode}:\n{done.stdout}")
        return done.stdout

    def install(self, *packages: str) -> None:
        """Install Debian's packages, or files of such."""
        self.run(f"apt-get update -q && apt-get install -y -q --no-install-recommends {shlex.join(packages)}")

    def files(self) -> set[str]:
        """The paths of all that is in it."""
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*")}

    @contextmanager
    def booted(self) -> Iterator[None]:
        """Let its systemd run, with a loopback interface of its own: `run` runs within it meanwhile."""
        hierarchies = [Path(each) for each in CGROUPS if Path(each).is_dir()] or [Path("/sys/fs/cgroup")]
        groups = [each / f"amqproxy-{os.getpid()}" for each in hierarchies]
        for group in groups:
            group.mkdir(exist_ok=True)
        join = "".join(f"echo $$ >{group}/cgroup.procs\n" for group in groups)
        namespaces = ["--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup", "--fork", "--kill-child"]
        unshare = shlex.join(["unshare", *namespaces, "/bin/sh", "-c", ENTER + BOOT, "sh", str(self.root)])
        with (self.root.with_suffix(".boot")).open("w") as log:
            machine = subprocess.Popen(
                ["/bin/sh", "-ec", f"{join}exec {unshare}"], stdin=subprocess.DEVNULL, stderr=log
            )
        try:
            children = Path(f"/proc/{machine.pid}/task/{machine.pid}/children")
            first = until(lambda: children.exists() and children.read_text().split()[:1], "systemd to start")[0]
            shared = ["--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup", "--root"]
            environment = [f"{name}={value}" for name, value in self.environment.items()]
            self._entered = ["nsenter", "-t", first, *shared, "env", "-i", *environment]
            until(self._is_up, "Debian to boot")
            yield
        finally:
            self._entered = []
            machine.kill()  # and with it all that is in its namespaces
            machine.wait()
            until(lambda: all(_is_removed(group) for group in groups), "its processes to end")

    def _is_up(self) -> bool:
        with suppress(Failed):
            return "running" in self.run("systemctl is-system-running || systemctl is-system-running | grep degraded")
        return False


def _is_removed(group: Path) -> bool:
    """Whether the cgroup is gone, which it can be once no process is in it."""
    with suppress(OSError):
        for each in (*sorted(group.rglob("*/"), reverse=True), group):
            if each.is_dir():
                each.rmdir()
    return not group.exists()
