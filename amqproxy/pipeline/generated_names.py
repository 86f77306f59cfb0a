"""Generated names and parts of names, as SQL.

Certainly generated parts are as in `amqproxy.rules.matching.generated_names`; short numbers are not.
"""

from __future__ import annotations

from collections.abc import Iterable

from amqproxy.rules.matching.generated_names import CERTAIN_DIGITS


def _generated(mark: str, end: str) -> tuple[tuple[str, str, str], ...]:
    """Return the kinds of generated parts: the expression, the kept part, and a representative name.

    `mark` precedes a name, and `end` follows it: nothing, or quotation marks within JSON.
    """
    return (
        (rf"((?:(?<={mark})|(?<=\.))(?:amq|spring)\.gen-)[A-Za-z0-9_-]{{8,}}{end}", "$1", "a" * 22),
        (rf"(?<={mark})(amq\.rabbitmq\.reply-to\.).*?{end}", "$1", "a"),
        (
            r"(?:(?<![0-9A-Fa-f])"
            rf"|(?<={mark}TempQueue))[0-9A-Fa-f]{{8}}-(?:[0-9A-Fa-f]{{4}}-){{3}}[0-9A-Fa-f]{{12}}(?![0-9A-Fa-f])",
            "",
            "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa",
        ),
        (r"(?<![0-9A-Za-z])(?=[A-Fa-f]*[0-9])(?=[0-9]*[A-Fa-f])[0-9A-Fa-f]{16,}(?![0-9A-Za-z])", "", "a1" * 8),
        (f"[0-9]{{{CERTAIN_DIGITS},}}", "", "1" * CERTAIN_DIGITS),
    )


_GENERATED = _generated("^", "$")
_GENERATED_IN_JSON = _generated('"', '(?=")')


def pattern(name: str) -> str:
    """Return the text of a query, with its braces doubled: the name in a column, with `*` for its generated parts."""
    return _replaced(name, [(found, f"{kept}*") for found, kept, _ in _GENERATED])


def alike(name: str) -> str:
    """Return likewise the representative of all names that differ only in their generated parts."""
    return _replaced(name, [(found, f"{kept}{shown}") for found, kept, shown in _GENERATED])


def alike_in_json(arguments: str) -> str:
    """Return likewise an object with each name replaced by its representative."""
    return _replaced(arguments, [(found, f"{kept}{shown}") for found, kept, shown in _GENERATED_IN_JSON])


def _replaced(text: str, generated: Iterable[tuple[str, str]]) -> str:
    for found, shown in generated:
        text = f"regexp_replace({text}, r'{found}', '{shown}')"
    return text.replace("{", "{{").replace("}", "}}")
