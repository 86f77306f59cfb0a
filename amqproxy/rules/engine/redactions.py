"""Redacted views of commands and client facts."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from amqproxy.amqp091.commands import MAX_BODY, Command
from amqproxy.amqp091.methods import ConnectionOpen, ConnectionStartOk, Method
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.amqp091.wire import Table
from amqproxy.rules.client_info import updated_client
from amqproxy.rules.context import Client, CommandContext
from amqproxy.rules.engine.compiled_rule import CompiledRule, account
from amqproxy.rules.engine.rule_states import RuleStates
from amqproxy.rules.matching.attributes import method_name
from amqproxy.rules.rewriting.redact import Redact


class Redactions:
    """The redaction rules of a session, for constant client facts."""

    __slots__ = ("_by_method", "_cases", "_client", "_shown_client", "_states")

    def __init__(self, cases: Iterable[CompiledRule], states: RuleStates, client: Client) -> None:
        self._cases = tuple([case for case in cases if isinstance(case.rule, Redact) and not case.is_shadow])
        self._by_method: dict[tuple[Peer, str], tuple[CompiledRule, ...]] = {}
        self._states = states
        self._client = client
        self._shown_client: Client | None = None

    def for_taps(self, sender: Peer, command: Command, body_limit: int = MAX_BODY) -> Command | None:
        """Return a received command as taps may see it; `None` if not at all.

        Every redaction rule for the method applies, whether or not its match holds for names, since earlier rules may
        change names. A body of more than `body_limit` bytes is masked whole.
        """
        context = CommandContext(sender=sender, command=command, client=self._client, body_limit=body_limit)
        for case in self._about(context):
            try:
                shown = case.rule.decide(context, self._states.of(case)).shown
            except Exception as error:  # noqa: BLE001 - a command that cannot be redacted is not shown
                case.counts.fail(account(case.rule, error))
                return None
            context = context if shown is None else msgspec.structs.replace(context, shown=shown)
        return command if context.shown is None else context.shown

    def for_rules(self, context: CommandContext) -> CommandContext:
        """Return the context for a rule that shows commands to people, with all redactions applied."""
        if not self._cases:
            return context
        return msgspec.structs.replace(context, shown=self._covered(context), client=self.shown_client)

    @property
    def shown_client(self) -> Client:
        """Client facts after redaction."""
        if self._shown_client is None:
            client = self._client
            try:
                start = self._covered_method(ConnectionStartOk(client_properties=Table(client.properties)))
                opened = self._covered_method(ConnectionOpen(client.vhost))
                shown = updated_client(updated_client(client, start), opened)
                properties, vhost = shown.properties, shown.vhost
            except Exception:  # noqa: BLE001 - facts that cannot be redacted are not shown
                properties, vhost = {}, ""
            self._shown_client = msgspec.structs.replace(client, properties=properties, vhost=vhost)
        return self._shown_client

    def _covered_method(self, method: Method) -> Method:
        covered = self._covered(CommandContext(sender=CLIENT, command=Command(0, method), client=self._client))
        found: Method = covered.method
        return found

    def _covered(self, context: CommandContext) -> Command:
        for case in self._about(context):
            if case.method_conditions_hold(context) and case.other_conditions_hold(context):
                verdict = case.rule.decide(context, self._states.of(case))
                context = msgspec.structs.replace(context, shown=verdict.shown)
        return context.command if context.shown is None else context.shown

    def _about(self, context: CommandContext) -> tuple[CompiledRule, ...]:
        """Return the redaction rules for the method."""
        key = context.sender, method_name(context)
        found = self._by_method.get(key)
        if found is None:
            found = tuple([case for case in self._cases if case.may_ask_about(*key)])
            self._by_method[key] = found
        return found
