"""A rule: adds to each publish a header with the user who published it, and refuses those who set it themselves.

[[rules]]
name = "who it was"
action = "stamp"
header = "x-published-by"
"""

from __future__ import annotations

from amqproxy.rules.scripting import AddonRule, Command, Context, Verdict, change, refuse


class Stamp(AddonRule, frozen=True, tag="stamp"):
    """Add a header with the user's name to each message that a client publishes."""

    # Keys of the rule in the config, beside `name`, `match`, `when` and `mode`, which all rules have.
    header: str = "x-published-by"
    may_be_set: bool = False

    # `act` is called for these methods only, once the header of their message has come.
    methods = frozenset({"basic.publish"})
    reads = "header"

    def act(self, command: Command, context: Context) -> Verdict | None:
        headers = dict(command.properties.headers or {})
        if self.header in headers and not self.may_be_set:
            return refuse(f"the header {self.header} is the proxy's")
        return change(command, headers=headers | {self.header: context.client.user or ""})
