"""Per-session state of rules."""

from __future__ import annotations

from collections.abc import Iterable

from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.rules.engine.compiled_rule import CompiledRule
from amqproxy.rules.rule import RuleState, SessionMemory


class RuleStates:
    """States of a session's rules. `started` are the connection rules that have been called."""

    __slots__ = ("_states", "started")

    def __init__(self) -> None:
        self._states: dict[CompiledRule, RuleState] = {}
        self.started: set[CompiledRule] = set()

    def of(self, case: CompiledRule) -> RuleState:
        """Return the state of a rule, creating it on first use."""
        state = self._states.get(case)
        if state is None:
            state = self._states[case] = case.begin_session()
        return state

    def channel_closed(self, number: int) -> None:
        """Forget a channel that was closed on the client's leg."""
        for case, state in self._states.items():
            if isinstance(state.own, SessionMemory):
                with case.counting_failures():
                    state.own.channel_closed(number)

    def session_over(self) -> None:
        """End the session; call it once."""
        states, self._states = self._states, {}
        for case, state in states.items():
            if isinstance(state.own, SessionMemory):
                with case.counting_failures():
                    state.own.session_over()

    def handed_over(
        self, old: Iterable[CompiledRule], new: Iterable[CompiledRule]
    ) -> tuple[RuleStates, tuple[CompiledRule, ...]]:
        """Return the states with which `new` rules continue `old` ones, and the old rules that still restore names.

        All other states end. This object must not be used afterwards.
        """
        states = RuleStates()
        left = {case.rule.name: case for case in old}
        for case in new:
            before = left.get(case.rule.name)
            if before is not None and case.continues(before):
                del left[case.rule.name]
                if before in self.started:
                    states.started.add(case)
                state = self._states.pop(before, None)
                if state is not None:
                    states._states[case] = state
        retired = []
        for case in left.values():
            reversible = case.reversible
            if reversible and case in self._states and any(reversible.restores(peer) for peer in (CLIENT, SERVER)):
                states._states[case] = self._states.pop(case)
                retired.append(case)
        self.session_over()
        return states, tuple(retired)
