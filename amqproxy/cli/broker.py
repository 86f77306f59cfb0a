"""`amqproxy broker`: the integrated broker without a proxy, and export of its state."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import cyclopts
import msgspec

from amqproxy.cli.failure import Failure
from amqproxy.cli.options import (
    Certificate,
    ConfigFile,
    Dashboard,
    Key,
    LogFormat,
    LogLevel,
    Management,
    Metrics,
    Printed,
    Record,
)
from amqproxy.cli.printing import print_settings

if TYPE_CHECKING:
    from amqproxy.configuration.config import RecordConfig

app = cyclopts.App(name="broker")


@app.default
def broker(
    *,
    listen: str | None = None,
    data: Path | None = None,
    definitions: Path | None = None,
    as_: Annotated[Literal["3.10", "4.0", "4.3"] | None, cyclopts.Parameter(name="--as")] = None,
    tls_cert: Certificate = None,
    tls_key: Key = None,
    tls_client_ca: Path | None = None,
    printed: Printed = Printed(),  # noqa: B008 - it is frozen
    record: Record = None,
    metrics: Metrics = None,
    dashboard: Dashboard = False,
    management: Management = False,
    config: ConfigFile = None,
    log_format: LogFormat = None,
    log_level: LogLevel = None,
) -> None:
    """Run the integrated AMQP broker until SIGTERM or Ctrl-C.

    Flags override variables such as AMQPROXY_BROKER__DATA, and these [broker] in the config file. Limits,
    mechanisms, several listeners and [control] are in the file and in variables only. SIGHUP reloads the certificates.

    Parameters
    ----------
    listen
        HOST:PORT where clients connect [127.0.0.1:5672]. Port 0 picks a free port.
    data
        The directory for durable state. Without it, all state is in memory.
    definitions
        A definitions.json, as RabbitMQ exports it: users, virtual hosts, permissions, queues and so on.
    as_
        The RabbitMQ version whose behaviour the broker has [4.3]: limits, refusals, texts, dead letters and the like.
    tls_client_ca
        The authority, in PEM, that must have signed each client's certificate. To log in by certificate, set
        auth_mechanisms in the config file.
    """
    import trio

    from amqproxy import app as root
    from amqproxy.app import preflight
    from amqproxy.cli.flags import errors_with_line, merged, merged_broker
    from amqproxy.configuration.config_file import chosen_file, load
    from amqproxy.process import log

    shown = print_settings("broker", printed)
    config = chosen_file(config)
    given = load(config)
    settings = merged(given, None, None, metrics, log_format, log_level, record, dashboard)
    files = {"certificate": tls_cert, "key": tls_key, "client_ca": tls_client_ca}
    tls = {name: str(file) for name, file in files.items() if file}
    own = merged_broker(settings.broker, listen, data, definitions, tls, as_, management)
    settings = msgspec.structs.replace(settings, broker=own, record=_recorded(settings.record))
    with errors_with_line(config):
        preflight.check_broker_alone(settings)
    with log.started(settings.log):
        try:
            trio.run(root.run_broker, settings, shown)
        except root.AddressUnavailable as error:
            raise Failure(str(error)) from None


def _recorded(record: RecordConfig | None) -> RecordConfig | None:
    """Return the recorder's configuration; raise `ConfigError` for settings that a broker without a proxy lacks."""
    from amqproxy.app.broker_program import recorded_by_broker
    from amqproxy.configuration.config import ConfigError

    if record is None or not record.at_start:
        return record
    try:
        return recorded_by_broker(msgspec.structs.replace(record, legs="client"))
    except ValueError as error:
        raise ConfigError(f"record{error}") from None


@app.command
def export(*, data: Path) -> None:
    """Print the state of a broker as a definitions.json, which RabbitMQ can import.

    It contains users, virtual hosts, permissions, policies, queues, exchanges and bindings, but no messages. The broker
    must not be running.

    Parameters
    ----------
    data
        The directory of `amqproxy broker --data`.
    """
    import trio

    from amqproxy import app as root
    from amqproxy.configuration.config import LogConfig
    from amqproxy.process import log

    with log.started(LogConfig(level="warning")):
        try:
            found = trio.run(root.export, data)
        except root.AddressUnavailable as error:
            raise Failure(str(error)) from None
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
