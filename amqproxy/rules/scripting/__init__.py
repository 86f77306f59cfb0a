"""Rules written in Python: what a script imports is here.

- `api`: the context of a command, and functions that make verdicts; this package offers all of it.
- `script`: the rule that calls a script's function.
- `script_loader`: loads a script once, and reports its errors by file and line.
"""

from amqproxy.rules.scripting.api import (
    Answer,
    Client,
    Command,
    Context,
    Insertion,
    Method,
    Peer,
    Properties,
    Scope,
    Table,
    Verdict,
    change,
    drop,
    insert,
    refuse,
)

__all__ = [
    "Answer",
    "Client",
    "Command",
    "Context",
    "Insertion",
    "Method",
    "Peer",
    "Properties",
    "Scope",
    "Table",
    "Verdict",
    "change",
    "drop",
    "insert",
    "refuse",
]
