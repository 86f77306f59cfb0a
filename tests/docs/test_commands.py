"""Each command line that the documentation shows, in a block or in a sentence, is one that amqproxy understands."""

from __future__ import annotations

import re
import shlex
from contextlib import nullcontext, suppress
from itertools import takewhile

import pytest
from cyclopts import CycloptsError, MissingArgumentError

from amqproxy.cli.command import app
from amqproxy.cli.printing import with_values_left_out
from tests.docs.pages import EVERY

pytestmark = pytest.mark.once

BLOCK = re.compile(r"^ *(?:\$ |    )(?:.*[|&(] *)?amqproxy (?P<arguments>[^`\n]+)", re.MULTILINE)
SENTENCE = re.compile(r"`amqproxy (?P<arguments>[^`\n]+)`")
ENDS = {"|", ">", ">>", "<", "&", "&&", ";", ")"}
"""Where the shell goes on, and the arguments end."""

ANOTHER = "--listen ADDRESS --port PORT amqp://broker:5672"
"""Of CloudAMQP's program of the same name."""

LINES = [
    pytest.param(each["arguments"], is_whole, id=f"{page.stem}-{each['arguments']}")
    for page in EVERY
    if page.name != "CHANGELOG.md"
    for pattern, is_whole in ((BLOCK, True), (SENTENCE, False))
    for each in pattern.finditer(page.read_text())
    if each["arguments"] not in (ANOTHER, "…")
]


def arguments_of(line: str) -> list[str]:
    """What the command gets, as a shell splits the line; a comment is none of it."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(takewhile(lambda word: word not in ENDS, lexer))
    return with_values_left_out(words)


@pytest.mark.parametrize(("line", "is_whole"), LINES)
def test_it_is_understood(line: str, is_whole: bool) -> None:
    """A sentence may name no more than the command and an option."""
    with nullcontext() if is_whole else suppress(MissingArgumentError):
        app.parse_args(arguments_of(line), print_error=False)


def test_a_wrong_one_is_found() -> None:
    with pytest.raises(CycloptsError):
        app.parse_args(arguments_of("tail --nothing | jq"), print_error=False)
