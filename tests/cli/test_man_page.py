"""`amqproxy man`: a page that man reads without complaint, with all commands and options."""

from __future__ import annotations

import re
import subprocess

import pytest

from amqproxy.cli.command import app
from amqproxy.cli.man_page import man_page
from tests.cli.command_tree import commands
from tests.cli.outcome import Amqproxy
from tests.real.require import require

pytestmark = pytest.mark.once


def test_it_has_each_command_and_option(amqproxy: Amqproxy) -> None:
    code, page, err = amqproxy("man")
    assert (code, err) == (0, "")
    sections = [line.removeprefix(".SS ").replace("\\", "") for line in page.splitlines() if line.startswith(".SS ")]
    names = [f"amqproxy {name}" for name, _ in commands(app)]
    assert set(names) <= set(sections)
    assert len(sections) == len(set(sections))
    assert ".B \\-\\-exit\\-on\\-closed\\-output" in page
    assert not re.search(r"default: (False|None|\(\)|\[\])", page)


def test_it_is_set_without_a_warning(amqproxy: Amqproxy) -> None:
    command = [require("groff"), "-man", "-ww", "-Kutf8", "-Tutf8", "-rLL=90n"]
    done = subprocess.run(command, input=amqproxy("man").out, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    text = re.sub(r"\x1b\[[\d;]*m|.\x08", "", done.stdout)
    assert "amqproxy rules suggest [OPTIONS] [ARGS...]" in text
    assert "local[*]" in text
    assert "https://amqproxy.github.io/amqproxy/" in text


def test_what_roff_reads_as_a_request_is_text() -> None:
    item = "* `--as TEXT`: .br `-b` **[required]** *[default: a]*"
    page = man_page(f"# amqproxy\n\n## amqproxy x\n\n.so /etc/passwd 'a' C:\\x\n\n{item}\n")
    assert "\n\\&.so /etc/passwd \\(aqa\\(aq C:\\ex\n" in page
    assert "\n.TP\n.B \\-\\-as TEXT\n\\&.br \\fB\\-b\\fR \\fI[required]\\fR \\fI[default: a]\\fR\n" in page
