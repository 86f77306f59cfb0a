"""`amqproxy run`: the proxy."""

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
    log_format: Literal["text", "json"] | None = None,
    log_level: Literal["debug", "info", "warning", "error"] | None = None,
    config: Path | None = None,
) -> None:
    """Stand between clients and a broker until SIGTERM or Ctrl-C, and then drain.

    Flags override the config file. TLS, limits, rules and several listeners are in the file only. On SIGHUP the file's
    rules and the listeners' certificates are read again.

    Parameters
    ----------
    listen
        HOST:PORT where clients connect [127.0.0.1:5673]. Port 0 takes a free one.
    upstream
        HOST:PORT of the broker [127.0.0.1:5672], or "broker" for the integrated one.
    metrics
        HOST:PORT for Prometheus, at /metrics. Off unless given.
    print_
        Print each frame that passes on standard output, as it passes.
    messages
        Print each message and request, with what became of it and how long it took. See docs/messages.md.
    findings
        Print what an expert would point out. See docs/findings.md.
    json
        Print one JSON object a line, for each frame, message or finding, as `decode --json` does.
    filter
        What is printed: a CEL expression, as rules have them: only the commands for which it holds.
    body
        Print so many bytes of each body frame or body, too; 1024 where --body stands alone.
    exit_on_closed_output
        When printing: drain and exit, with 141, when the reader of standard output goes away. Else only printing ends.
    log_format
        How the log on standard error is written [text].
    log_level
        The least important events to log [info].
    config
        A .toml, .yaml or .yml file; see `amqproxy config show`.
    """
    import trio

    from amqproxy import app as root
    from amqproxy import log, preflight
    from amqproxy.cli.flags import errors_with_line, merged
    from amqproxy.config import Config
    from amqproxy.config_file import load

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
        return merged(load(config) if config else Config(), listen, upstream, metrics, log_format, log_level)

    settings = read()
    with errors_with_line(config):
        preflight.check_proxy(settings)
    with log.started(settings.log):
        try:
            directory = config.parent if config else Path()
            trio.run(root.run, settings, read if config else None, printed, directory)
        except root.AddressUnavailable as error:
            raise Failure(str(error)) from None
