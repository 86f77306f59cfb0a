"""The settings of a dashboard: its sources, its address, and its permissions."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

import msgspec

DEFAULT_ADDRESS = "127.0.0.1:8672"

DEFAULT_RING = 64 * 1024 * 1024


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a dashboard: address, sources and permissions.

    `connect` are control sockets of proxies, `captures` are files and directories, each a separate source. `tables` is
    the directory or bucket of the pipeline's tables. `ring` is the limit in bytes on the kept frames of each source.
    With `port` 0, any free port is used. `hosts` are additional names by which browsers may address the dashboard.
    """

    connect: tuple[Path, ...] = ()
    captures: tuple[Path, ...] = ()
    tables: str | None = None
    host: str = "127.0.0.1"
    port: int = 8672
    read_only: bool = False
    token: str | None = None
    password: str | None = None
    certificate: Path | None = None
    key: Path | None = None
    ring: int = DEFAULT_RING
    hosts: tuple[str, ...] = ()

    @property
    def needs_login(self) -> bool:
        return self.token is not None or self.password is not None

    def problem(self) -> str | None:
        """Return why the settings are unsafe or contradictory, with the remedy; `None` if they are not."""
        if not is_loopback(self.host) and not self.needs_login:
            return (
                f"{self.host} can be reached from other machines: give a token or a password "
                "(--token-file, --password-file), or listen on 127.0.0.1"
            )
        if (self.certificate is None) != (self.key is None):
            return "a certificate needs its key, and a key its certificate"
        return None


def is_loopback(host: str) -> bool:
    """Whether an address is reachable only from this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
