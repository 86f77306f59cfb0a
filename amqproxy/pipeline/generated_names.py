"""Names of which a part was generated, as Spark sees them.

What was generated for sure is as in `amqproxy.rules.matching.generated_names`: short numbers are not.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as fn

from amqproxy.rules.matching.generated_names import CERTAIN_DIGITS


def _generated(mark: str, end: str) -> tuple[tuple[str, str, str], ...]:
    """What was generated: its expression, what of that stays, and a name that is like all of them.

    `mark` is what a name begins with, and `end` what it ends with: nothing, or within JSON its quotation marks.
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


def pattern(name: Column) -> Column:
    """The name with `*` for what was generated."""
    return reduce(lambda shown, each: fn.regexp_replace(shown, each[0], f"{each[1]}*"), _GENERATED, name)


def alike(name: Column) -> Column:
    """One of all names that differ only in what was generated: which of them it is makes no difference."""
    return _replaced(name, _GENERATED)


def alike_in_json(arguments: Column) -> Column:
    """The same for each name in an object."""
    return _replaced(arguments, _GENERATED_IN_JSON)


def _replaced(text: Column, generated: tuple[tuple[str, str, str], ...]) -> Column:
    return reduce(lambda shown, each: fn.regexp_replace(shown, each[0], f"{each[1]}{each[2]}"), generated, text)
