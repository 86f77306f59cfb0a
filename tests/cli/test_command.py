"""The command: its help, and its errors about wrong usage."""

import subprocess
import sys

import pytest
from cyclopts import App

from amqproxy.cli.command import app as command_line
from amqproxy.cli.failure import FAILED, INTERRUPTED, MISUSED, UNHEARD
from tests.cli.command_tree import commands
from tests.cli.outcome import Amqproxy


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--help"],
        ["run", "--help"],
        ["broker", "--help"],
        ["broker", "export", "--help"],
        ["decode", "--help"],
        ["config"],
        ["config", "check", "--help"],
        ["rules", "explain", "--help"],
    ],
)
def test_help(arguments: list[str], amqproxy: Amqproxy) -> None:
    code, out, err = amqproxy(*arguments)
    assert (code, err) == (0, "")
    assert out.startswith("Usage: amqproxy")


def test_help_lists_the_exit_codes(amqproxy: Amqproxy) -> None:
    out = amqproxy("--help").out
    for code in (0, FAILED, MISUSED, INTERRUPTED, UNHEARD):
        assert f"{code} " in out
    for command in ("run", "broker", "decode", "config", "version", "completion"):
        assert command in out


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["nope"], "nope"),
        (["run", "--nope"], "--nope"),
        (["run", "extra"], "extra"),
        (["run", "--log-level", "loud"], "--log-level"),
        (["run", "--listen", "nowhere"], "--listen nowhere: not of the form HOST:PORT, e.g. "),
        (["run", "--listen", "a:65536"], "port above 65535"),
        (["run", "--upstream", ":5672"], "--upstream :5672: address :5672 does not name a broker"),
        (["run", "--metrics", "9419"], "--metrics 9419: not of the form HOST:PORT"),
        (["run", "--config", "missing.yaml"], "missing.yaml: cannot be read"),
        (["config", "show", "missing.yaml"], "missing.yaml: cannot be read"),
        (["broker", "--listen", "nowhere"], "--listen nowhere: not of the form HOST:PORT"),
        (["broker", "--tls-cert", "a.pem"], "TLS needs both --tls-cert and --tls-key"),
        (["broker", "--listen", "127.0.0.1:0", "--tls-cert", "a.pem", "--tls-key", "a.key"], "a.pem and a.key: not a"),
        (["broker", "--listen", "127.0.0.1:0", "--definitions", "missing.json"], "missing.json: cannot be read"),
        (["broker", "--config", "missing.yaml"], "missing.yaml: cannot be read"),
        (["broker", "export"], "--data"),
        (["config", "check"], "name a file"),
        (["rules", "check"], "name a file"),
        (["rules", "check", "missing.yaml"], "missing.yaml: cannot be read"),
        (["rules", "explain", "missing.yaml", "--method", "basic.pubish"], "did you mean `basic.publish`?"),
        (["decode"], "name a capture"),
        (["completion", "tcsh"], "tcsh"),
    ],
)
def test_wrong_usage(arguments: list[str], error: str, amqproxy: Amqproxy) -> None:
    code, out, err = amqproxy(*arguments)
    assert (code, out) == (MISUSED, "")
    assert error in err
    assert "Traceback" not in err


@pytest.mark.parametrize("arguments", [["--help"], ["version"], ["control", "release", "--help"]])
def test_what_needs_no_proxy_does_not_wait_for_one(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        "from amqproxy.cli.command import app\n"
        f"app({arguments!r})\n"
        "slow = {'trio', 'yaml', 'amqproxy.app', 'amqproxy.configuration.config'}\n"
        "sys.exit(', '.join(slow & sys.modules.keys()) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "app"), list(commands(command_line)), ids=lambda each: each if isinstance(each, str) else ""
)
def test_the_help_describes_each_argument(name: str, app: App) -> None:
    arguments = app.assemble_argument_collection(parse_docstring=True)
    assert [argument.name for argument in arguments if argument.show and not argument.parameter.help] == []
