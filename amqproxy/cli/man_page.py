"""The manual page, in the macros of man(7), from the reference of all commands in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator

from amqproxy import __version__
from amqproxy.cli.help import EXAMPLES, EXIT_CODES, SITE

_HEADING = re.compile(r"#{2,} (amqproxy .+)")
_ITEM = re.compile(r"\* `(.+?)`:? ?(.*)")
_LABEL = re.compile(r"\*\*(\w+)\*\*:")
_MARKED = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\*(\[.+?\])\*(?= |$)")


def man_page(reference: str) -> str:
    """Return the page; `reference` is that of `amqproxy.cli.help`, whose first section has the command itself."""
    _, _, sections = reference.partition("\n## amqproxy ")
    lines = [
        f'.TH AMQPROXY 1 "" "amqproxy {__version__}" "User Commands"',
        ".SH NAME",
        r"amqproxy \- inspect, count and control the traffic between AMQP clients and their broker",
        ".SH SYNOPSIS",
        r".B amqproxy",
        r"\fICOMMAND\fR [\fIOPTIONS\fR] [\fIARGS\fR]",
        ".SH DESCRIPTION",
        "A man-in-the-middle for AMQP 0\\-9\\-1 and 0\\-10: it decodes both directions, forwards them unchanged or as",
        "rules say, counts, records and replays traffic, and can be the broker itself.",
        ".SH COMMANDS",
        *_commands(f"## amqproxy {sections}"),
        ".SH EXIT STATUS",
        _text(EXIT_CODES.removeprefix("Exit codes: ")),
        ".SH EXAMPLES",
        ".nf",
        *(_escaped(f"amqproxy {each}") for each in EXAMPLES[""]),
        ".fi",
        ".SH SEE ALSO",
        f".UR {SITE}",
        "The documentation",
        ".UE .",
    ]
    return "\n".join(lines) + "\n"


def _commands(sections: str) -> Iterator[str]:
    """Yield the lines of all commands; lists of subcommands, which follow anyway, are left out."""
    is_usage = is_list_of_commands = False
    before = ""
    for line in sections.splitlines():
        heading, label, item = _HEADING.fullmatch(line), _LABEL.fullmatch(line), _ITEM.fullmatch(line)
        if heading:
            is_list_of_commands = False
            yield f".SS {_escaped(heading[1])}"
        elif line.startswith("```"):
            is_usage = not is_usage
            yield ".PP"
        elif is_usage:
            yield f".B {_escaped(line)}"
        elif label:
            is_list_of_commands = label[1] == "Commands"
        elif item and not is_list_of_commands:
            yield from (".TP", f".B {_escaped(item[1])}", _text(item[2]))
        elif line.strip() and not item and not is_list_of_commands:
            if not before.strip() and not line.startswith(" "):
                yield ".PP"
            yield _text(line.strip())
        before = line


def _text(text: str) -> str:
    """Return a line of running text, with what is code in bold and other marks in italics."""
    parts, end = [], 0
    for marked in _MARKED.finditer(text):
        parts.append(_escaped(text[end : marked.start()]))
        parts.append(rf"\fB{_escaped(marked[1])}\fR" if marked[1] else rf"\fI{_escaped(marked[2] or marked[3])}\fR")
        end = marked.end()
    line = "".join([*parts, _escaped(text[end:])])
    return rf"\&{line}" if line.startswith((".", "'")) else line


def _escaped(text: str) -> str:
    """Return the text as roff prints it; hyphens stay those of options, so that they can be copied."""
    text = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace('"', r"\(dq")
    return text.replace("^", r"\(ha").replace("~", r"\(ti").replace("`", r"\(ga")
