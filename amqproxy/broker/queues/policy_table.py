"""The policies of a virtual host by name, with an index for finding the one that applies to a queue or exchange."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from amqproxy.broker.queues.policies import Policy
from amqproxy.rules.matching.patterns import sound

_QUANTIFIERS = ("*", "?", "{")
_SPECIAL = frozenset(".^$*+?{}[]()|")


class PolicyTable(Mapping[str, Policy]):
    """Policies of one level: ordinary, or an operator's.

    Most patterns begin with `^` and letters. These are found by the letters, so that with thousands of policies only
    the few that may match a name are compared with it.
    """

    def __init__(self) -> None:
        self._policies: dict[str, Policy] = {}
        self._numbers: dict[str, int] = {}
        """Order in which policies were set first, by name: of several with one priority, the oldest applies."""
        self._count = 0
        self._by_prefix: dict[str, dict[str, Policy]] = {}
        self._lengths: dict[int, int] = {}
        """Number of prefixes by their length."""

    def __getitem__(self, name: str) -> Policy:
        return self._policies[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._policies)

    def __len__(self) -> int:
        return len(self._policies)

    def put(self, policy: Policy) -> None:
        """Set a policy, replacing one of the same name."""
        before = self._policies.get(policy.name)
        if before is None:
            self._count += 1
            self._numbers[policy.name] = self._count
        else:
            self._forget(before)
        self._policies[policy.name] = policy
        prefix = literal_prefix(policy.pattern.pattern)
        found = self._by_prefix.get(prefix)
        if found is None:
            found = self._by_prefix[prefix] = {}
            self._lengths[len(prefix)] = self._lengths.get(len(prefix), 0) + 1
        found[policy.name] = policy

    def take(self, name: str) -> Policy | None:
        """Remove a policy and return it, if there is one."""
        policy = self._policies.pop(name, None)
        if policy is not None:
            del self._numbers[name]
            self._forget(policy)
        return policy

    def _forget(self, policy: Policy) -> None:
        prefix = literal_prefix(policy.pattern.pattern)
        found = self._by_prefix[prefix]
        del found[policy.name]
        if not found:
            del self._by_prefix[prefix]
            self._lengths[len(prefix)] -= 1
            if not self._lengths[len(prefix)]:
                del self._lengths[len(prefix)]

    def highest(self, kind: str, name: str) -> Policy | None:
        """Return the policy of highest priority that matches; see `Policy.matches`."""
        if not self._policies:
            return None
        text = sound(name)
        best: Policy | None = None
        for length in self._lengths:
            for policy in self._by_prefix.get(text[:length], _NONE).values():
                if (best is None or self._rank(policy) > self._rank(best)) and policy.matches(kind, name):
                    best = policy
        return best

    def _rank(self, policy: Policy) -> tuple[int, int]:
        return policy.priority, -self._numbers[policy.name]


_NONE: Mapping[str, Policy] = {}


def literal_prefix(pattern: str) -> str:
    """Return letters with which each name begins that the regular expression matches, "" if none are certain."""
    if not pattern.startswith("^") or "|" in pattern or "(?" in pattern:
        return ""
    found: list[str] = []
    place = 1
    while place < len(pattern):
        char = pattern[place]
        if char == "\\":
            place += 1
            char = pattern[place : place + 1]
            if not char or char.isalnum() or ord(char) > 127:
                break  # a class, such as \d
        elif char in _SPECIAL:
            break
        place += 1
        if pattern[place : place + 1] in _QUANTIFIERS:
            break  # it may be missing
        found.append(char)
    return "".join(found)
