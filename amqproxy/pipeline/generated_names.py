"""Names of which a part was generated, as Spark sees them.

What was generated for sure is as in `amqproxy.rules.matching.generated_names`: short numbers are not.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as fn

from amqproxy.rules.matching.generated_names import CERTAIN_DIGITS

_GENERATED = (
    (r"((?<![^.])(?:amq|spring)\.gen-)[A-Za-z0-9_-]{8,}$", "$1", "a" * 22),
    (r"^(amq\.rabbitmq\.reply-to\.).*$", "$1", "a"),
    (
        r"(?:(?<![0-9A-Fa-f])|(?<=^TempQueue))[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}(?![0-9A-Fa-f])",
        "",
        "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa",
    ),
    (r"(?<![0-9A-Za-z])(?=[A-Fa-f]*[0-9])(?=[0-9]*[A-Fa-f])[0-9A-Fa-f]{16,}(?![0-9A-Za-z])", "", "a1" * 8),
    (f"[0-9]{{{CERTAIN_DIGITS},}}", "", "1" * CERTAIN_DIGITS),
)
"""What was generated: its expression, what of that stays, and a name that is like all of them."""


def pattern(name: Column) -> Column:
    """The name with `*` for what was generated."""
    return reduce(lambda shown, each: fn.regexp_replace(shown, each[0], f"{each[1]}*"), _GENERATED, name)


def alike(name: Column) -> Column:
    """One of all names that differ only in what was generated: which of them it is makes no difference."""
    return reduce(lambda shown, each: fn.regexp_replace(shown, each[0], f"{each[1]}{each[2]}"), _GENERATED, name)
