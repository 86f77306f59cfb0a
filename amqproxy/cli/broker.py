"""`amqproxy broker`: the integrated broker by itself, and what it keeps."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import cyclopts
import msgspec
from cyclopts import Parameter

from amqproxy.cli.failure import Failure
from amqproxy.cli.printing import print_settings

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
    config: Path | None = None,
    log_format: Literal["text", "json"] | None = None,
    log_level: Literal["debug", "info", "warning", "error"] | None = None,
) -> None:
    """Run the integrated AMQP broker until SIGTERM or Ctrl-C.

    Flags override [broker] in the config file. Limits, mechanisms and several listeners are in it only.

    Parameters
    ----------
    listen
        HOST:PORT where clients connect [127.0.0.1:5672]. Port 0 takes a free one.
    data
        The directory for durable state. Without one, everything is in memory only.
    definitions
        A definitions.json, as RabbitMQ exports it: users, virtual hosts, permissions, queues and so on.
    tls_cert
        A certificate in PEM: clients must then speak TLS.
    tls_key
        The key of the certificate, in PEM, without a password.
    tls_client_ca
        The authority, in PEM, that must have signed a certificate of each client's. To log in by it takes
        auth_mechanisms in the config file.
    print_
        Print each frame on standard output, as it passes.
    messages
        Print each message and request, with what became of it and how long it took. See docs/messages.md.
    findings
        Print what an expert would point out. See docs/findings.md.
    json
        Print one JSON object a line, for each frame, message or finding, as `decode --json` does.
    filter
        Print only the commands for which this CEL expression holds. See docs/rules.md.
    body
        Also print the first N bytes of each body frame, or with --messages of each body; 1024 for --body alone.
    exit_on_closed_output
        When printing: end, with 141, when the reader of standard output goes away. Else only printing ends.
    config
        A .toml, .yaml or .yml file; see `amqproxy config show`.
    log_format
        How the log on standard error is written [text].
    log_level
        The least important events to log [info].
    """
    import trio

    from amqproxy import app as root
    from amqproxy import log, preflight
    from amqproxy.cli.flags import errors_with_line, merged, merged_broker
    from amqproxy.config import Config
    from amqproxy.config_file import load

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
    settings = merged(load(config) if config else Config(), None, None, None, log_format, log_level)
    files = {"certificate": tls_cert, "key": tls_key, "client_ca": tls_client_ca}
    tls = {name: str(file) for name, file in files.items() if file}
    own = merged_broker(settings.broker, listen, data, definitions, tls)
    with errors_with_line(config):
        preflight.check_broker(own)
    with log.started(settings.log):
        try:
            trio.run(root.run_broker, own, settings.limits, printed)
        except root.AddressUnavailable as error:
            raise Failure(str(error)) from None


@app.command
def export(*, data: Path) -> None:
    """Print what a broker has kept as a definitions.json, which RabbitMQ imports too.

    That is: users, virtual hosts, permissions, policies, queues, exchanges and bindings, but no messages. The broker
    must not be running.

    Parameters
    ----------
    data
        The directory that `amqproxy broker --data` was given.
    """
    import trio

    from amqproxy import app as root
    from amqproxy import log
    from amqproxy.config import LogConfig

    with log.started(LogConfig(level="warning")):
        try:
            found = trio.run(root.export, data)
        except root.AddressUnavailable as error:
            raise Failure(str(error)) from None
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
