"""New names for exchanges, queues and the like, and their inverse."""

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
"""Maximum number of names that a rule remembers per session to restore them; the oldest is forgotten first."""

RESERVED = "amq."
"""Prefix of names that brokers generate: their own exchanges, and queues and consumers without a name."""


class UsedNames:
    """Names that a client has used in one session, with their latest mapping.

    `plain` and `restored` are caches: new names from which the old one can be computed, and old names by new ones. Both
    are emptied when a name gets another mapping.
    """

    __slots__ = ("_back", "_forth", "plain", "restored")

    def __init__(self) -> None:
        self._back: dict[str, str] = {}
        self._forth: dict[str, str] = {}
        self.plain: dict[str, str] = {}
        self.restored: dict[str, str] = {}

    def note(self, name: str, new: str) -> None:
        """Note that `name` was mapped to `new`."""
        self.plain.clear()
        self.restored.pop(new, None)
        for names, key, value in ((self._forth, name, new), (self._back, new, name)):
            names.pop(key, None)
            put(names, key, value)

    def forget(self, new: str) -> None:
        """Forget `new`, since the old name can be computed from it again."""
        if self._back.pop(new, None) is not None:
            self.restored.pop(new, None)

    def new(self, name: str) -> str | None:
        return self._forth.get(name)

    def old(self, new: str) -> str | None:
        return self._back.get(new)


def put(names: dict[str, str], key: str, value: str) -> None:
    """Add a name, and forget the oldest one above the limit."""
    names[key] = value
    if len(names) > MAX_NAMES:
        del names[next(iter(names))]


class Renaming(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    r"""Mapping of names: of all, or of those that `from` selects.

    `to` is the new name; after `from = "regex:…"` it may contain `\1` for the first group. `names` maps old names to
    new ones. `prefix` and `suffix` are added after `strip_prefix` and `strip_suffix` are removed; a name without the
    part to be removed is unchanged. `to`, `prefix` and `suffix` are templates over the client facts, such as `{user}`.

    Generated names and the empty name are unchanged, unless `to` or `names` gives that very name.
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
                raise ValueError(f"`{template.text}`: a name may depend only on the client")
            if template is not None:
                check_short_template(template)
        for new in self.names.values():
            check_short_string(new)
        if self._expression is not None and self.to is not None:
            check_groups(self._expression, self.to)
        _ = self._selects

    @property
    def is_reversible(self) -> bool:
        """Whether the old name can be computed from the new name alone."""
        if self.to is not None:
            return self._only_source is not None
        return bool(self.names) or not (self.strip_prefix or self.strip_suffix)

    def separates(self, *, is_for_some: bool) -> bool:
        """Whether clients get names that others cannot use; `is_for_some` if other clients' names are unchanged."""
        affixes = (self._prefix, self._suffix)
        is_own = any(affix.places or (is_for_some and affix.text) for affix in affixes)
        return self.source is None and is_own

    def new(self, name: str, context: CommandContext) -> str:
        """Return the new name, or the same; raise `ValueError` if it is too long."""
        if self.names:
            return self.names.get(name, name)
        if (not name or name.startswith(RESERVED)) and not self._is_literal:
            return name
        if self._selects is not None and not self._selects(name):
            return name
        new = self._replaced(name, context) if self._to is not None else self._refitted(name, context)
        if not fits(new):
            raise ValueError(f"a name has at most {MAX_SHORT_STRING} bytes, and the new name of `{name}` has more")
        return new

    def old(self, new: str, context: CommandContext, literal: str | None = None) -> str:
        """Return the old name of `new` if it is known, else `new`.

        `literal` is the only possible old name, if the rule's match determines it.
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
        """Regular expression whose groups `to` may use."""
        if isinstance(self.source, str) and self.source.startswith("regex:"):
            return whole_expression(self.source.removeprefix("regex:"))
        return None

    @cached_property
    def _only_source(self) -> str | None:
        """The only name that `from` matches, if there is just one."""
        names = None if self.source is None else exact(self.source)
        return next(iter(names)) if names is not None and len(names) == 1 else None

    @cached_property
    def _is_literal(self) -> bool:
        """Whether the new name is fixed, and so are the old names, if given."""
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
    """Raise `ValueError` if a replacement text refers to a missing group."""
    for place, following in pairwise(text):
        if place == "\\" and following.isdecimal() and int(following) > expression.groups:
            raise ValueError(f"`{text}` refers to group {following}, but the expression has {expression.groups}")
