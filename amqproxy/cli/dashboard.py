"""`amqproxy dashboard`: shows the traffic of proxies, or captures, in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from amqproxy.cli.failure import FAILED, MISUSED, Failure
from amqproxy.cli.options import Flag, Key, LogFormat, LogLevel
from amqproxy.cli.signals import on_signals

Files = Annotated[list[Path], Parameter(negative="")]
Names = Annotated[list[str], Parameter(negative="")]


def dashboard(
    *,
    connect: Files = [],  # noqa: B006 - cyclopts reads it, nothing changes it
    capture: Files = [],  # noqa: B006
    tables: str | None = None,
    listen: str | None = None,
    read_only: Flag = False,
    token_file: Path | None = None,
    password_file: Path | None = None,
    certificate: Path | None = None,
    key: Key = None,
    host: Names = [],  # noqa: B006
    ring: str | None = None,
    config: Path | None = None,
    log_format: LogFormat = None,
    log_level: LogLevel = None,
) -> None:
    """Show the traffic of running proxies, or captures or tables, in a browser, until Ctrl-C.

    `amqproxy run --dashboard` starts one beside a proxy. Flags override [dashboard] in the config file. Needs
    pip install "amqproxy[dashboard]".

    Parameters
    ----------
    connect
        The control socket of a proxy. Repeatable.
    capture
        A capture file, or a directory of them. Repeatable.
    tables
        Tables made by `amqproxy pipeline`, for the screen Analytics: a directory, or s3://BUCKET/PATH. Needs
        pip install "amqproxy[analytics]".
    listen
        HOST:PORT for browsers [127.0.0.1:8672]. Port 0 picks a free port.
    read_only
        Read-only: no closing, pausing, releasing, recording or changing.
    token_file
        A file with a token that browsers must present. Access from other machines needs a token or a password.
    password_file
        A file with the login password.
    certificate
        A certificate in PEM: the dashboard then uses HTTPS.
    host
        A host name of the dashboard, besides its address. Repeatable.
    ring
        Size of the traffic history kept for each proxy or capture [64MiB].
    config
        A .toml, .yaml or .yml file with a [dashboard], and a [control] that names the proxy's socket.
    """
    from amqproxy.app import preflight
    from amqproxy.app.dashboard_process import secrets_of
    from amqproxy.cli.flags import merged, merged_dashboard
    from amqproxy.configuration.config_file import chosen_file, load
    from amqproxy.configuration.extras import missing_extra
    from amqproxy.configuration.values import split_address
    from amqproxy.process import log

    files = {"token_file": token_file, "password_file": password_file, "certificate": certificate, "key": key}
    given: dict[str, object] = {name: str(file) for name, file in files.items() if file}
    chosen = {"listen": listen, "read_only": read_only, "hosts": host, "ring": ring, "tables": tables}
    given |= {name: value for name, value in chosen.items() if value}
    settings = merged(load(chosen_file(config)), None, None, None, log_format, log_level)
    sockets = [*connect]
    if not (connect or capture) and settings.control is not None:
        sockets.append(Path(settings.control.path))
    wanted = merged_dashboard(settings.dashboard, given)
    if not (sockets or capture or wanted.tables):
        raise Failure(
            "dashboard: name a proxy's socket with --connect, a --capture, --tables, or a --config with them", MISUSED
        )
    fault = missing_extra("dashboard", preflight.DASHBOARD)
    if fault is not None:
        raise Failure(f"dashboard: {fault}", FAILED)
    fault = missing_extra("analytics", preflight.ANALYTICS) if wanted.tables else None
    if fault is not None:
        raise Failure(f"dashboard: --tables {fault}", FAILED)
    secrets = secrets_of(wanted)
    for path in capture:
        if not path.exists():
            raise Failure(f"dashboard: --capture {path}: no such file or directory", MISUSED)
    from amqproxy.dashboard.server import Unsafe, serve
    from amqproxy.dashboard.settings import Settings

    address, port = split_address(wanted.listen)
    shown = Settings(
        connect=tuple(sockets),
        captures=tuple(capture),
        tables=wanted.tables or None,
        host=address,
        port=port,
        read_only=wanted.read_only,
        token=secrets.get("token"),
        password=secrets.get("password"),
        certificate=Path(wanted.certificate) if wanted.certificate else None,
        key=Path(wanted.key) if wanted.key else None,
        ring=wanted.ring,
        hosts=wanted.hosts,
    )
    # A signal is the regular end; uvicorn raises it again after its shutdown.
    with log.started(settings.log), on_signals(lambda: None):
        try:
            serve(shown)
        except Unsafe as error:
            raise Failure(f"dashboard: {error}", MISUSED) from None
        except OSError as error:
            raise Failure(f"dashboard: cannot listen on {wanted.listen}: {error.strerror or error}", FAILED) from None
