"""The choice whether clients of protocols that are not decoded are served."""

from __future__ import annotations

from amqproxy.configuration.config import Unread
from amqproxy.rules.engine.evaluator import RuleSet


def refusal_of(unread: Unread, rules: RuleSet | None) -> str:
    """Return why a listener refuses such clients, "" if they pass.

    Without a choice, rules that decide about clients would be evaded by a client of another protocol.
    """
    if unread == "refuse":
        return 'the listener has unread = "refuse"'
    if unread is None and rules is not None and rules.must_read:
        return 'rules need to read it (unread = "pass" on the listener lets it pass without them)'
    return ""
