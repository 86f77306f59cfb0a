"""Rules written in Python, and the names that a script imports.

- `api`: the context of a command, and functions that make verdicts.
- `script`: the rule that calls a script's function.
- `addon_rule`: the rules that other packages add.
- `script_loader`: loads a script once, and reports its errors by file and line.
"""

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import Peer
from amqproxy.amqp091.wire import Table
from amqproxy.rules.context import Client
from amqproxy.rules.scripting.addon_rule import AddonRule
from amqproxy.rules.scripting.api import Context, change, drop, insert, refuse
from amqproxy.rules.verdict import Answer, Insertion, Verdict

__all__ = [
    "AddonRule",
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
