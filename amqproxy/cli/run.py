"""`amqproxy run`: runs the proxy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from amqproxy.cli.failure import Failure
from amqproxy.cli.printing import print_settings


def run(
    *,
    listen: str | None = None,
    upstream: str | None = None,
    metrics: str | None = None,
    print_: Annotated[bool, Parameter(name="--print", negative="")] = False,
    messages: Annotated[bool, Parameter(negative="")] = False,
    findings: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
    filter: str | None = None,
    body: int = 0,
    exit_on_closed_output: Annotated[bool, Parameter(negative="")] = False,
    record: Path | None = None,
    dashboard: Annotated[bool | str, Parameter(negative="")] = False,
    log_format: Literal["text", "json"] | None = None,
    log_level: Literal["debug", "info", "warning", "error"] | None = None,
    config: Path | None = None,
) -> None:
    """Run the proxy between clients and a broker until SIGTERM or Ctrl-C, and then drain.

    Flags override the config file. TLS, limits, rules and several listeners are in the file only. SIGHUP reloads
    the file's rules, and the certificates.

    Parameters
    ----------
    listen
        HOST:PORT where clients connect [127.0.0.1:5673]. Port 0 picks a free port.
    upstream
        HOST:PORT of the broker [127.0.0.1:5672], or "broker" for the integrated one.
    metrics
        HOST:PORT for Prometheus, at /metrics. Off unless given.
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
        When printing: drain and exit with 141 if the reader of standard output goes away, instead of printing no more.
    record
        Record the traffic into pcapng files in this directory. [record] in the config has more. See docs/captures.md.
    dashboard
        Show the traffic in a browser, at HOST:PORT [127.0.0.1:8672]. [dashboard] in the config has more. See
        docs/dashboard.md.
    log_format
        Format of the log on standard error [text].
    log_level
        Lowest level of events to log [info].
    config
        A .toml, .yaml or .yml file; see `amqproxy config show`.
    """
    import trio

    from amqproxy import app as root
    from amqproxy.app import preflight
    from amqproxy.cli.flags import errors_with_line, merged
    from amqproxy.configuration.config import Config
    from amqproxy.configuration.config_file import load
    from amqproxy.process import log

    printed = print_settings(
        "run",
        frames=print_,
        messages=messages,
        findings=findings,
        json=json,
        filter=filter,
        body=body,
        ends_with_reader=exit_on_closed_output,
    )

    def read() -> Config:
        given = load(config) if config else Config()
        return merged(given, listen, upstream, metrics, log_format, log_level, record, dashboard)

    settings = read()
    with errors_with_line(config):
        preflight.check_proxy(settings)
    with log.started(settings.log):
        try:
            directory = config.parent if config else Path()
            trio.run(root.run, settings, read if config else None, printed, directory)
        except root.AddressUnavailable as error:
            raise Failure(str(error)) from None
