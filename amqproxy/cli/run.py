"""`amqproxy run`: runs the proxy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from amqproxy.cli.failure import Failure
from amqproxy.cli.options import ConfigFile, Dashboard, LogFormat, LogLevel, Management, Metrics, Printed, Record
from amqproxy.cli.printing import print_settings

if TYPE_CHECKING:
    from amqproxy.configuration.config import Config


def run(
    *,
    listen: str | None = None,
    upstream: str | None = None,
    metrics: Metrics = None,
    printed: Printed = Printed(),  # noqa: B008 - it is frozen
    record: Record = None,
    dashboard: Dashboard = False,
    management: Management = False,
    log_format: LogFormat = None,
    log_level: LogLevel = None,
    config: ConfigFile = None,
) -> None:
    """Run the proxy between clients and a broker until SIGTERM or Ctrl-C, and then drain.

    Flags override variables such as AMQPROXY_LISTEN, and these the config file. TLS, limits, rules and several
    listeners are in the file and in variables only. SIGHUP reloads the file's rules, and the certificates.

    Parameters
    ----------
    listen
        HOST:PORT where clients connect [127.0.0.1:5673]. Port 0 picks a free port.
    upstream
        HOST:PORT of the broker [127.0.0.1:5672], or "broker" for the integrated one.
    """
    import trio

    from amqproxy import app as root
    from amqproxy.app import preflight
    from amqproxy.cli.flags import errors_with_line, merged, with_management
    from amqproxy.configuration.config_file import chosen_file, load
    from amqproxy.process import log

    shown = print_settings("run", printed)
    config = chosen_file(config)

    def read() -> Config:
        found = merged(load(config), listen, upstream, metrics, log_format, log_level, record, dashboard)
        return with_management(found, management) if management else found

    settings = read()
    with errors_with_line(config):
        preflight.check_proxy(settings)
    with log.started(settings.log):
        try:
            directory = config.parent if config else Path()
            trio.run(root.run, settings, read if config else None, shown, directory)
        except root.AddressUnavailable as error:
            raise Failure(str(error)) from None
