"""The settings of a management API: the broker's control socket, and the address where it is served."""

from __future__ import annotations

from pathlib import Path

import msgspec

DEFAULT_ADDRESS = "127.0.0.1:15672"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a management API; `control` is the socket of the broker."""

    control: Path
    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
    cors_origins: tuple[str, ...] = ()
    cors_max_age: float | None = None
    content_security_policy: str = "script-src 'self'; object-src 'self'"
    strict_transport_security: str | None = None
    frame_options: str | None = None
    metrics_without_login: bool = False
