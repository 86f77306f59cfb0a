"""`amqproxy config`: config files, checked, shown and described."""

from __future__ import annotations

import sys
from pathlib import Path

import cyclopts
import msgspec

from amqproxy.cli.failure import MISUSED, Failure

app = cyclopts.App(name="config", help="Check, show and describe config files.")


@app.command
def check(*files: Path) -> None:
    """Check config files, and say what is wrong with the first that is. Certificates are looked at too.

    Parameters
    ----------
    files
        .toml, .yaml or .yml files.
    """
    if not files:
        raise Failure("config check: name a file", MISUSED)
    from amqproxy.config import Upstream, load
    from amqproxy.sockets.tls import client_context, server_context

    for file in files:
        found = load(file)
        for listener in (*found.listen, *found.broker.listen):
            if listener.tls:
                server_context(listener.tls)
        if isinstance(found.upstream, Upstream) and found.upstream.tls:
            client_context(found.upstream.tls)
        print(f"{file}: fine", file=sys.stderr)


@app.command
def show(file: Path | None = None, /) -> None:
    """Print the whole config, defaults included, as YAML.

    Parameters
    ----------
    file
        A config file; without one, the defaults.
    """
    from amqproxy.config import Config, dump, load

    sys.stdout.write(dump(load(file) if file else Config()))


@app.command(name="schema")
def show_schema() -> None:
    """Print the JSON Schema of config files, for editors and checks."""
    from amqproxy.config import schema

    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(schema()), indent=2) + b"\n")
