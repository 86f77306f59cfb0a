"""The command with all its subcommands, in the order of shell completion."""

from typing import Literal

import cyclopts

from amqproxy import __version__
from amqproxy.cli import broker, config, control, pipeline, queue, record, rules
from amqproxy.cli.compare import compare
from amqproxy.cli.dashboard import dashboard
from amqproxy.cli.decode import decode
from amqproxy.cli.export import export
from amqproxy.cli.extcap import extcap
from amqproxy.cli.hash_password import hash_password
from amqproxy.cli.help import HelpFormatter, add_epilogues, command_reference, shown_default
from amqproxy.cli.mock import mock
from amqproxy.cli.readiness import readiness
from amqproxy.cli.replay import replay
from amqproxy.cli.run import run
from amqproxy.cli.shrink import shrink
from amqproxy.cli.sniff import sniff
from amqproxy.cli.tail import tail
from amqproxy.cli.top import top
from amqproxy.cli.verify import verify
from amqproxy.cli.version import version

app = cyclopts.App(
    name="amqproxy",
    help="Inspect, count and control the traffic between AMQP clients and their broker.",
    help_format="plaintext",
    help_formatter=HelpFormatter(),
    default_parameter=cyclopts.Parameter(show_default=shown_default),
    version=__version__,
    result_action="return_value",
    exit_on_error=False,
    print_error=True,
)


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a completion script, e.g. for `source <(amqproxy completion bash)`.

    Parameters
    ----------
    shell
        The shell to complete in.
    """
    print(app.generate_completion(shell=shell))


def man() -> None:
    """Print the manual page, with all commands and options, e.g. for `amqproxy man | man -l -`."""
    from amqproxy.cli.man_page import man_page

    print(man_page(command_reference(app)), end="")


for each in (config, rules, control, record, broker, queue, pipeline):
    app.command(each.app)
COMMANDS = (
    run,
    tail,
    top,
    dashboard,
    decode,
    export,
    replay,
    mock,
    compare,
    shrink,
    sniff,
    extcap,
    readiness,
    verify,
    hash_password,
    version,
    completion,
    man,
)
for function in COMMANDS:
    app.command(function)
add_epilogues(app)
