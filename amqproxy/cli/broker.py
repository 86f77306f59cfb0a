"""`amqproxy broker`: the integrated broker without a proxy, and export of its state."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import cyclopts
import msgspec
from cyclopts import Parameter

from amqproxy.cli.failure import Failure
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
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    tls_client_ca: Path | None = None,
    print_: Annotated[bool, Parameter(name="--print", negative="")] = False,
    messages: Annotated[bool, Parameter(negative="")] = False,
    findings: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
    filter: str | None = None,
    body: int = 0,
    exit_on_closed_output: Annotated[bool, Parameter(negative="")] = False,
    record: Path | None = None,
    metrics: str | None = None,
    dashboard: Annotated[bool | str, Parameter(negative="")] = False,
    config: Path | None = None,
    log_format: Literal["text", "json"] | None = None,
    log_level: Literal["debug", "info", "warning", "error"] | None = None,
) -> None:
    """Run the integrated AMQP broker until SIGTERM or Ctrl-C.

    Flags override [broker] in the config file. Limits, mechanisms, several listeners and
    [control] are in the file only. SIGHUP reloads the certificates.

    Parameters
    ----------
    listen
        HOST:PORT where clients connect [127.0.0.1:5672]. Port 0 picks a free port.
    data
        The directory for durable state. Without it, all state is in memory.
    definitions
        A definitions.json, as RabbitMQ exports it: users, virtual hosts, permissions, queues and so on.
    tls_cert
        A certificate in PEM; clients must then use TLS.
    tls_key
        The key of the certificate, in PEM, without a password.
    tls_client_ca
        The authority, in PEM, that must have signed each client's certificate. To log in by certificate, set
        auth_mechanisms in the config file.
    print_
        Print each frame on standard output, as it passes.
    messages
        Print each message and request with its outcome and duration. See docs/messages.md.
    findings
        Print findings: likely mistakes and problems. See docs/findings.md.
    json
        Print one JSON object a line, for each frame, message or finding, as `decode --json` does.
    filter
        Print only the commands for which this CEL expression holds. See docs/rules.md.
    body
        Also print the first N bytes of each body frame, or with --messages of each body; 1024 for --body alone.
    exit_on_closed_output
        When printing: exit with 141 if the reader of standard output goes away. By default, only printing ends.
    record
        Record the traffic into pcapng files in this directory. [record] in the config has more. See docs/captures.md.
    metrics
        HOST:PORT for Prometheus, at /metrics. Off unless given.
    dashboard
        Show the traffic in a browser, at HOST:PORT [127.0.0.1:8672]. [dashboard] in the config has more. See
        docs/dashboard.md.
    config
        A .toml, .yaml or .yml file; see `amqproxy config show`.
    log_format
        Format of the log on standard error [text].
    log_level
        Lowest level of events to log [info].
    """
    import trio

    from amqproxy import app as root
    from amqproxy.app import preflight
    from amqproxy.cli.flags import errors_with_line, merged, merged_broker
    from amqproxy.configuration.config import Config
    from amqproxy.configuration.config_file import load
    from amqproxy.process import log

    printed = print_settings(
        "broker",
        frames=print_,
        messages=messages,
        findings=findings,
        json=json,
        filter=filter,
        body=body,
        ends_with_reader=exit_on_closed_output,
    )
    given = load(config) if config else Config()
    settings = merged(given, None, None, metrics, log_format, log_level, record, dashboard)
    files = {"certificate": tls_cert, "key": tls_key, "client_ca": tls_client_ca}
    tls = {name: str(file) for name, file in files.items() if file}
    own = merged_broker(settings.broker, listen, data, definitions, tls)
    settings = msgspec.structs.replace(settings, broker=own, record=_recorded(settings.record))
    with errors_with_line(config):
        preflight.check_broker_alone(settings)
    with log.started(settings.log):
        try:
            trio.run(root.run_broker, settings, printed)
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
