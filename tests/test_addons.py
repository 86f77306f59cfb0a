"""Addons: the examples as installed packages, and addons that fail."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pika
import pytest

from amqproxy import addons
from tests.cli.process import connected
from tests.installed_addons import installed
from tests.real.poll import until
from tests.real.proxy import LISTENING

pytestmark = pytest.mark.once

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples" / "addons"
CAPTURE = ROOT / "captures" / "confirms.pcapng"
PACKAGE = "amqproxy-example-addons"

EXAMPLE_ENTRIES = tomllib.loads((EXAMPLES / "pyproject.toml").read_text())["project"]["entry-points"]

BROKEN = {
    "amqproxy.rules": {"stamp": "broken:not_a_rule", "gone": "broken:nothing", "drop": "broken:Untagged"},
    "amqproxy.findings": {"auto-ack": "broken:Taken", "failing": "broken:Failing"},
    "amqproxy.bodies": {"json": "broken:decode"},
    "amqproxy.exports": {"csv": "broken:decode", "failing": "broken:fail"},
    "amqproxy.tokens": {"number": "broken:not_a_rule"},
    "amqproxy.commands": {"run": "broken:fail", "failing": "broken:fail", "missing": "no_such_module:fail"},
}
BROKEN_MODULE = """
from amqproxy.rules.scripting import AddonRule
from amqproxy.taps.findings.detector import Detector, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import MessagePublished

not_a_rule = 5

class Untagged(AddonRule, frozen=True, tag="other"):
    pass

class Failing(Detector):
    kind, severity, why, remedy = "failing", Severity.INFO, "", ""

    @on(MessagePublished)
    def _on_published(self, event):
        raise RuntimeError("oh no")

class Taken(Failing):
    kind = "auto-ack"

def decode(body, content_type):
    return "x"

def fail(*arguments):
    raise RuntimeError("oh no")
"""


Run = Callable[..., "subprocess.CompletedProcess[str]"]


class Site:
    """A directory of installed packages, and the environment of programs that have them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        path = os.pathsep.join(map(str, (ROOT, EXAMPLES, directory)))
        self.environment = os.environ | {"PYTHONPATH": path, "NO_COLOR": "1"}

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.python("-m", "amqproxy", *arguments, **environment)

    def python(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = tmp_path / "site"
    installed(site, PACKAGE, EXAMPLE_ENTRIES)
    return Site(site)


@pytest.fixture
def broken(tmp_path: Path) -> Site:
    site = tmp_path / "broken"
    installed(site, "broken-addons", BROKEN)
    (site / "broken.py").write_text(BROKEN_MODULE)
    return Site(site)


def test_there_is_a_short_example_of_each_kind() -> None:
    assert EXAMPLE_ENTRIES.keys() == addons.KINDS.keys()
    for values in EXAMPLE_ENTRIES.values():
        for value in values.values():
            module = EXAMPLES / f"{value.partition(':')[0].replace('.', '/')}.py"
            assert len(module.read_text().splitlines()) <= 40


def test_the_version_lists_them_and_a_variable_chooses_among_them(site: Site) -> None:
    listed = site.run("version").stdout
    for group, values in EXAMPLE_ENTRIES.items():
        for name in values:
            assert f"addon: {addons.KINDS[group]} {name} of {PACKAGE} 1.0\n" in listed
    assert "cannot be used" not in listed
    assert "addon" not in site.run("version", AMQPROXY_ADDONS="none").stdout
    assert "addon" not in site.run("version", AMQPROXY_ADDONS="other-package").stdout
    assert listed == site.run("version", AMQPROXY_ADDONS=f"other-package, {PACKAGE}").stdout


def test_a_rule_is_one_of_the_config(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "amqproxy.toml"
    file.write_text('[[rules]]\nname = "who"\naction = "stamp"\nheader = "x-user"\n')
    checked = site.run("config", "check", str(file))
    assert checked.returncode == 0
    assert checked.stderr.startswith(f"{file}: fine\naddon: body form of {PACKAGE} 1.0\n")
    tested = site.run("rules", "test", str(file), "--capture", str(CAPTURE))
    assert "headers" in tested.stdout
    assert "x-user" in tested.stdout
    file.write_text('[[rules]]\nname = "who"\naction = "stamp"\nhaeder = "x-user"\n')
    refused = site.run("config", "check", str(file))
    assert "unknown key `haeder`: did you mean `header`?" in refused.stderr
    without = site.run("config", "check", str(file), AMQPROXY_ADDONS="none")
    assert (without.returncode, "Invalid value 'stamp'" in without.stderr) == (2, True)


def test_a_proxy_runs_rules_findings_and_commands(site: Site, tmp_path: Path) -> None:
    config = tmp_path / "amqproxy.toml"
    config.write_text(
        'upstream = "broker"\n[control]\npath = "amqproxy.sock"\n'
        '[[rules]]\nname = "who"\naction = "stamp"\n[[listen]]\naddress = "127.0.0.1:0"\n'
    )
    log = tmp_path / "log"
    command = [sys.executable, "-m", "amqproxy", "run", "--config", str(config), "--findings"]
    with log.open("wb") as output:
        proxy = subprocess.Popen(command, env=site.environment, stdout=output, stderr=output)
    try:
        listening = until(lambda: LISTENING.search(log.read_text()), "the proxy to listen")
        with connected(int(listening[1])) as connection:
            channel = connection.channel()
            channel.queue_declare("orders")
            properties = pika.BasicProperties(reply_to="answers", headers={"kept": 1})
            channel.basic_publish("", "orders", b"a request", properties)
            got = until(lambda: next(iter([each for each in [channel.basic_get("orders")] if each[0]]), None), "it")
            assert got[1].headers == {"kept": 1, "x-published-by": "guest"}
            until(lambda: "missing-correlation-id" in log.read_text(), "the finding")
            users = site.run("users", "--socket", str(tmp_path / "amqproxy.sock"))
            assert users.stdout == "guest: 1 connections, 1 channels\n", users.stderr
            forged = pika.BasicProperties(headers={"x-published-by": "root"})
            channel.basic_publish("", "orders", b"", forged)
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="is the proxy's"):
                until(lambda: channel.queue_declare("orders", passive=True) is None, "the refusal")
        assert f"rule stamp of {PACKAGE} 1.0" in log.read_text()
    finally:
        proxy.kill()
        proxy.wait()


def test_a_command_is_in_the_help(site: Site) -> None:
    assert "Count connections and channels by user." in site.run("--help").stdout
    assert "The proxy's control socket." in site.run("users", "--help").stdout
    assert "users" not in site.run("--help", AMQPROXY_ADDONS="none").stdout


def test_an_export_is_a_format(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "table.md"
    done = site.run("export", str(CAPTURE), "--messages", "--format", "markdown", "--to", str(file))
    assert done.returncode == 0, done.stderr
    assert file.read_text().startswith("| type | exchange | routing_key |")
    assert "| publish | " in file.read_text()
    wrong = site.run("export", str(CAPTURE), "--format", "markdwon", "--to", str(file))
    assert (wrong.returncode, "did you mean `markdown`?" in wrong.stderr) == (2, True)


TOKENS = """
import trio
from amqproxy.proxy.logins.addon_tokens import AddonTokens
made = trio.run(AddonTokens("command", "blue", now=lambda: 1000.0).fetch)
print(made.token.reveal(), made.expires_at, made)
"""


def test_a_token_is_that_of_a_command(site: Site) -> None:
    command = r"""sh -c 'echo "{\"access_token\": \"of-$0\", \"expires_in\": 60}"'"""
    done = site.python("-c", TOKENS, TOKEN_COMMAND=command)
    assert done.stdout == "of-blue 1060.0 NewToken(token=Secret(***), expires_at=1060.0)\n", done.stderr


BODIES = """
from amqproxy.bodies.body_child import BodyTask, outcome_of
for body in (b"a=1&b=2", b"=\\xff"):
    print(outcome_of(BodyTask(body=body, form="auto", content_type="application/x-www-form-urlencoded")))
"""


def test_a_body_is_shown_by_a_decoder_or_else_as_without_it(site: Site) -> None:
    first, second = site.python("-c", BODIES).stdout.splitlines()
    assert "form='form'" in first
    assert '"a": [' in first.replace("\\n", "")
    assert "form='hex'" in second
    assert f"body form of {PACKAGE} 1.0" in second


STATES = """
def decode(body, content_type):
    return {"state": body.decode()} if body in (b"taken", b"refused") else None
"""


@pytest.fixture
def reading(tmp_path: Path) -> Site:
    site = tmp_path / "reading"
    installed(site, "states", {"amqproxy.bodies": {"state": "states:decode"}})
    (site / "states.py").write_text(STATES)
    return Site(site)


def test_bodies_are_decoded_wherever_messages_are_shown(reading: Site, tmp_path: Path) -> None:
    def output(*arguments: str) -> str:
        done = reading.run(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    messages = ("decode", "--messages", str(CAPTURE))
    shown = output(*messages, "--body")
    assert 'body(state)={"state": "taken"}' in shown
    assert "body=returned" in shown
    assert '"decoded":{"form":"state","value":{"state":"refused"}}' in output(*messages, "--body", "--json")
    assert "decoded" not in output(*messages, "--json")
    assert "taken" in output(*messages, "--fields", "number,decoded.value.state")
    assert '"decoded":{"form":"state"' in output("export", str(CAPTURE), "--messages", "--body", "--to", "-")
    assert """│ state: {
             │   "state": "taken"
             │ }""" in output("decode", "--follow", "0", str(CAPTURE))
    assert "state:\n              type: string" in output("export", str(CAPTURE), "--asyncapi", "--to", "-")


REPORTED = """
import pika

def test_it(amqp_proxy):
    with pika.BlockingConnection(pika.URLParameters(amqp_proxy.url)) as connection:
        connection.channel().basic_publish("", "nowhere", b"taken")
    assert amqp_proxy.messages.one(type="publish").outcome == "confirmed"
"""


def test_the_report_of_a_failed_test_shows_decoded_bodies(reading: Site, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(REPORTED)
    done = reading.python("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path))
    assert 'body(state)={"state": "taken"}' in done.stdout


def test_what_cannot_be_used_is_named_with_the_reason(broken: Site) -> None:
    done = broken.run("version")
    assert done.returncode == 0, done.stderr
    for name, reason in {
        "rule stamp": "it is not a subclass of amqproxy.rules.scripting.AddonRule",
        "rule gone": "AttributeError: module 'broken' has no attribute 'nothing'",
        "rule drop": "its tag is 'other', and not 'drop', the name of its entry point",
        "finding auto-ack": "its kind is 'auto-ack'",
        "body json": "amqproxy has a form of that name",
        "export csv": "amqproxy has a format of that name",
        "command run": "amqproxy has a command of that name",
        "token number": "it is not a function",
        "command missing": "ModuleNotFoundError: No module named 'no_such_module'",
    }.items():
        assert f"addon: {name} of broken-addons 1.0 cannot be used: {reason}" in done.stdout
    assert "addon: finding failing of broken-addons 1.0\n" in done.stdout


def test_a_failing_addon_costs_itself_alone(broken: Site, site: Site, tmp_path: Path) -> None:
    usual = broken.run("decode", "--findings", str(CAPTURE), AMQPROXY_ADDONS="none")
    findings = broken.run("decode", "--findings", str(CAPTURE))
    assert (findings.returncode, findings.stdout) == (usual.returncode, usual.stdout)
    assert findings.stderr.count("finding failing of broken-addons 1.0: RuntimeError: oh no") == 1
    export = broken.run("export", str(CAPTURE), "--format", "failing", "--to", str(tmp_path / "a"))
    assert (export.returncode, list(tmp_path.glob("a*"))) == (1, [])
    assert "export: the addon failing has failed: RuntimeError: oh no" in export.stderr
    command = broken.run("failing")
    assert (command.returncode, command.stdout) == (1, "")
    assert "failing: the addon has failed: RuntimeError: oh no" in command.stderr
    file = tmp_path / "amqproxy.toml"
    file.write_text('[[rules]]\nname = "who"\naction = "stamp"\n')
    assert broken.run("config", "check", str(file)).returncode == 2


FAILING_RULE = """
from amqproxy.rules.scripting import AddonRule

class Exits(AddonRule, frozen=True, tag="exits"):
    def act(self, command, context):
        raise SystemExit(0)
"""


def test_a_rule_that_fails_refuses_the_command(tmp_path: Path) -> None:
    site = tmp_path / "site"
    installed(site, "exits", {"amqproxy.rules": {"exits": "exits:Exits"}})
    (site / "exits.py").write_text(FAILING_RULE)
    file = tmp_path / "amqproxy.toml"
    file.write_text('[[rules]]\nname = "no"\naction = "exits"\nmatch = { method = "basic.publish" }\n')
    tested = Site(site).run("rules", "test", str(file), "--capture", str(CAPTURE))
    assert "541" in tested.stdout
    assert "failed 1 times: rule 'no' failed" in tested.stderr or "failed" in tested.stderr
    assert f"{site}/exits.py:6: SystemExit" in tested.stderr


CARRIED = """
from amqproxy.pipeline.trace_state import dumped, loaded
from amqproxy.taps.findings.inspector import added
(detector,) = added()
print(type(loaded(dumped(detector(None), b"head", {}), b"head", {})).__name__)
"""


def test_the_pipeline_carries_detectors_from_one_run_to_the_next(site: Site) -> None:
    done = site.python("-c", CARRIED)
    assert done.stdout == "MissingCorrelationId\n", done.stderr


TABLES = """
import duckdb, sys
print(duckdb.sql(f"select distinct kind from read_parquet('{sys.argv[1]}/findings/**/*.parquet')").fetchall())
"""
EVERY_PUBLISH = """
from amqproxy.taps.findings.detector import Detector, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import MessagePublished

class EveryPublish(Detector):
    kind, severity, why, remedy = "every-publish", Severity.INFO, "", ""

    @on(MessagePublished)
    def _on_published(self, event):
        return "seen"
"""


def test_findings_are_in_the_tables_of_the_pipeline(tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="needs amqproxy[pipeline]") if os.environ.get("CI") != "true" else None
    site = tmp_path / "site"
    installed(site, "every", {"amqproxy.findings": {"every-publish": "every:EveryPublish"}})
    (site / "every.py").write_text(EVERY_PUBLISH)
    tables = tmp_path / "tables"
    done = Site(site).run("pipeline", "run", str(CAPTURE), "--tables", str(tables))
    assert done.returncode == 0, done.stderr
    assert "every-publish" in Site(site).python("-c", TABLES, str(tables)).stdout
