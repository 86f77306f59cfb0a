"""New names for exchanges, queues and the like, and the way back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any

import msgspec

from amqproxy.amqp091.wire import MAX_SHORT_STRING
from amqproxy.rules.context import CommandContext
from amqproxy.rules.matching.patterns import Patterns, Predicate, exact, predicate, sound, whole_expression
from amqproxy.rules.matching.templates import Template
from amqproxy.rules.short_strings import check_short_string, check_short_template, fits

MAX_NAMES = 10_000
"""How many names a rule remembers for a session, for the way back; the oldest is forgotten first."""

RESERVED = "amq."
"""How the names begin that brokers give: of their own exchanges, and of queues and consumers that were given none."""


class UsedNames:
    """The names that a client has used in one session, and what they were changed to; the latest word counts.

    `plain` and `restored` are caches: new names from which the old one can be computed, and old names by the new ones.
    Both are valid until the same name is used otherwise, and are emptied then.
    """

    __slots__ = ("_back", "_forth", "plain", "restored")

    def __init__(self) -> None:
        self._back: dict[str, str] = {}
        self._forth: dict[str, str] = {}
        self.plain: dict[str, str] = {}
        self.restored: dict[str, str] = {}

    def note(self, name: str, new: str) -> None:
        """`name` has become `new`."""
        self.plain.clear()
        self.restored.pop(new, None)
        for names, key, value in ((self._forth, name, new), (self._back, new, name)):
            names.pop(key, None)
            put(names, key, value)

    def forget(self, new: str) -> None:
        """The old name can be computed from `new` itself again."""
        if self._back.pop(new, None) is not None:
            self.restored.pop(new, None)

    def new(self, name: str) -> str | None:
        return self._forth.get(name)

    def old(self, new: str) -> str | None:
        return self._back.get(new)


def put(names: dict[str, str], key: str, value: str) -> None:
    """Enter a name among those that are remembered, the oldest of which is forgotten when there are too many."""
    names[key] = value
    if len(names) > MAX_NAMES:
        del names[next(iter(names))]


class Renaming(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    r"""How names change: all of them, or those that `from` selects.

    `to` is the new name; after `from = "regex:…"` it may contain `\1` for what the first group matched. `names` are old
    names and their new ones. `prefix` and `suffix` are put to a name, after `strip_prefix` and `strip_suffix` have
    been taken off; a name that does not have what is to be taken off stays. `to`, `prefix` and `suffix` may have
    places, such as `{user}`, for what is known of the client.

    A name that a broker gave, and the empty one, stay, unless `to` or `names` means that very name.
    """

    source: Patterns | None = msgspec.field(default=None, name="from")
    to: str | None = None
    names: dict[str, str] = {}
    prefix: str = ""
    suffix: str = ""
    strip_prefix: str = ""
    strip_suffix: str = ""

    def __post_init__(self) -> None:
        affixes = bool(self.prefix or self.suffix or self.strip_prefix or self.strip_suffix)
        if [self.to is not None, bool(self.names), affixes].count(True) != 1:
            raise ValueError("a renaming needs one of `to`, `names`, or what to put to a name or take off it")
        if self.names and self.source is not None:
            raise ValueError("`names` has the old names itself: leave `from` out")
        if self.prefix and (self.prefix.startswith(RESERVED) or RESERVED.startswith(self.prefix)):
            raise ValueError(f"names that begin with {RESERVED} are the broker's: choose another prefix")
        for template in (self._to, self._prefix, self._suffix):
            if template is not None and not template.is_of_client:
                raise ValueError(f"`{template.text}`: a name may depend on the client, and on nothing else")
            if template is not None:
                check_short_template(template)
        for new in self.names.values():
            check_short_string(new)
        if self._expression is not None and self.to is not None:
            check_groups(self._expression, self.to)
        _ = self._selects

    @property
    def is_reversible(self) -> bool:
        """Can the old name be derived from the new one alone?"""
        if self.to is not None:
            return self._only_source is not None
        return bool(self.names) or not (self.strip_prefix or self.strip_suffix)

    def separates(self, *, is_for_some: bool) -> bool:
        """Whether clients get names of their own, which others cannot use; `is_for_some`: other clients' names stay."""
        affixes = (self._prefix, self._suffix)
        is_own = any(affix.places or (is_for_some and affix.text) for affix in affixes)
        return self.source is None and is_own

    def new(self, name: str, context: CommandContext) -> str:
        """The name's new one, or itself. `ValueError` when that would be too long."""
        if self.names:
            return self.names.get(name, name)
        if (not name or name.startswith(RESERVED)) and not self._is_literal:
            return name
        if self._selects is not None and not self._selects(name):
            return name
        new = self._replaced(name, context) if self._to is not None else self._refitted(name, context)
        if not fits(new):
            raise ValueError(f"a name has at most {MAX_SHORT_STRING} bytes, and `{name}` would have more")
        return new

    def old(self, new: str, context: CommandContext, literal: str | None = None) -> str:
        """The old name of `new`, if it is known; else itself.

        `literal` is the only name that can be meant, where a rule's match determines it.
        """
        if self.names:
            return self._names_back.get(new, new)
        if self._to is not None:
            only = literal if self.source is None else self._only_source
            return only if only is not None and new == self._to.fill(context) else new
        if not new or new.startswith(RESERVED):
            return new
        prefix, suffix = self._prefix.fill(context), self._suffix.fill(context)
        if len(new) < len(prefix) + len(suffix) or not (new.startswith(prefix) and new.endswith(suffix)):
            return new
        old = self.strip_prefix + new[len(prefix) : len(new) - len(suffix)] + self.strip_suffix
        return old if fits(old) and self.new(old, context) == new else new

    def _replaced(self, name: str, context: CommandContext) -> str:
        assert self._to is not None
        if self._expression is None:
            return self._to.fill(context)
        if sound(name) != name:
            return name
        match = self._expression.fullmatch(name)
        return "".join(
            [match.expand(piece) if isinstance(piece, str) else piece.text(context) for piece in self._to.pieces]
        )

    def _refitted(self, name: str, context: CommandContext) -> str:
        if len(name) < len(self.strip_prefix) + len(self.strip_suffix):
            return name
        if not (name.startswith(self.strip_prefix) and name.endswith(self.strip_suffix)):
            return name
        core = name[len(self.strip_prefix) : len(name) - len(self.strip_suffix)]
        return self._prefix.fill(context) + core + self._suffix.fill(context)

    # --- derived from the keys

    @cached_property
    def _selects(self) -> Predicate | None:
        return None if self.source is None else predicate(self.source)

    @cached_property
    def _expression(self) -> Any:
        """The regular expression whose groups `to` may use."""
        if isinstance(self.source, str) and self.source.startswith("regex:"):
            return whole_expression(self.source.removeprefix("regex:"))
        return None

    @cached_property
    def _only_source(self) -> str | None:
        """The one name that `from` means, if it is one."""
        names = None if self.source is None else exact(self.source)
        return next(iter(names)) if names is not None and len(names) == 1 else None

    @cached_property
    def _is_literal(self) -> bool:
        """Is the new name given, for old names that are given exactly, if any?"""
        return self.to is not None and (self.source is None or exact(self.source) is not None)

    @cached_property
    def _names_back(self) -> Mapping[str, str]:
        back: dict[str, str] = {}
        for name, new in self.names.items():
            back.setdefault(new, name)
        return back

    @cached_property
    def _to(self) -> Template | None:
        return None if self.to is None else Template(self.to)

    @cached_property
    def _prefix(self) -> Template:
        return Template(self.prefix)

    @cached_property
    def _suffix(self) -> Template:
        return Template(self.suffix)


def check_groups(expression: Any, text: str) -> None:
    """`ValueError` when a text that is put in place of what an expression matched wants a group that it has not."""
    for place, following in pairwise(text):
        if place == "\\" and following.isdecimal() and int(following) > expression.groups:
            raise ValueError(f"`{text}` wants group {following} of an expression that has {expression.groups}")
