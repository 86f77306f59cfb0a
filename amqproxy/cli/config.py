"""`amqproxy config`: checks, prints and describes config files."""

from __future__ import annotations

import sys
from pathlib import Path

import cyclopts
import msgspec

from amqproxy.cli.failure import MISUSED, Failure
from amqproxy.cli.standard_streams import print_error

app = cyclopts.App(name="config", help="Check, show and describe config files.")


@app.command
def check(*files: Path) -> None:
    """Check config files and the files that they name, and report the errors of the first wrong one.

    Warns of settings that work but are probably unintended.

    Parameters
    ----------
    files
        .toml, .yaml or .yml files.
    """
    if not files:
        raise Failure("config check: name a file", MISUSED)
    from amqproxy.app import preflight
    from amqproxy.cli.flags import errors_with_line
    from amqproxy.configuration.config_file import load

    for file in files:
        with errors_with_line(file):
            config = load(file)
            preflight.check(config)
        for each in preflight.find_warnings(config):
            print(f"{file}: warning: {each}", file=sys.stderr)
        print_error(f"{file}: fine")


@app.command
def show(file: Path | None = None, /) -> None:
    """Print the whole config, defaults included, as YAML.

    Parameters
    ----------
    file
        A config file; without one, the defaults.
    """
    from amqproxy.configuration.config import Config
    from amqproxy.configuration.config_file import dump, load

    sys.stdout.write(dump(load(file) if file else Config()))


@app.command(name="schema")
def show_schema() -> None:
    """Print the JSON Schema of config files, for editors and checks."""
    from amqproxy.configuration.config import schema

    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(schema()), indent=2) + b"\n")
