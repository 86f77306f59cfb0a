"""`amqproxy config`: checks, prints and describes config files."""

from __future__ import annotations

import sys
from pathlib import Path

import cyclopts
import msgspec

from amqproxy.cli.addon_commands import addon_lines
from amqproxy.cli.failure import MISUSED, Failure
from amqproxy.cli.standard_streams import print_error

app = cyclopts.App(name="config", help="Check, show and describe config files.")


@app.command
def check(*files: Path) -> None:
    """Check config files, the AMQPROXY_… variables, and the files that they name; report the first error.

    Warns of settings that work but are probably unintended, and of members of upstream groups that cannot be reached.

    Parameters
    ----------
    files
        .toml, .yaml or .yml files; without one, that in AMQPROXY_CONFIG, or the variables alone.
    """
    from amqproxy.app import preflight
    from amqproxy.app.reachability import unreachable_members
    from amqproxy.cli.flags import errors_with_line
    from amqproxy.configuration.config_file import chosen_file, load, sources

    named = chosen_file(None)
    if not (files or named or sources(None)):
        raise Failure("config check: name a file, or set a variable such as AMQPROXY_LISTEN", MISUSED)
    for file in files or (named,):
        name = file or "environment"
        with errors_with_line(file):
            config = load(file)
            preflight.check(config)
        for each in preflight.find_warnings(config):
            print(f"{name}: warning: {each}", file=sys.stderr)
        for each in unreachable_members(config):
            print(f"{name}: warning: {each}", file=sys.stderr)
        print_error(f"{name}: fine")
    for line in addon_lines():
        print_error(line)


@app.command
def show(file: Path | None = None, /) -> None:
    """Print the whole config, defaults included, as YAML, with the file and line or the variable that set a value.

    Parameters
    ----------
    file
        A config file; without one, that in AMQPROXY_CONFIG, or the defaults, and what AMQPROXY_… variables set.
    """
    from amqproxy.configuration.config_file import chosen_file, dump, load, sources

    file = chosen_file(file)
    sys.stdout.write(dump(load(file), sources(file)))


@app.command(name="schema")
def show_schema() -> None:
    """Print the JSON Schema of config files, for editors and checks."""
    from amqproxy.configuration.schema import schema

    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(schema()), indent=2) + b"\n")
