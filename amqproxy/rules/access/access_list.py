"""Parser of access lists, the readable short form of allow and refuse rules.

    list   := line (newline or ";" line)*
    line   := ("allow" or "deny") who "to" act ("," act)* object*
            | "otherwise" ("allow" or "deny")
    who    := "anyone" | (("user" or "address" or "vhost") text ("," text)*)+
    act    := "publish" | "consume" | "get" | "declare" | "delete" | "bind" | "unbind" | "purge" | "connect" | "any"
    object := ("exchange" or "queue" or "routing_key" or "vhost") text ("," text)*

A text is a pattern in double quotes; an address is an IP address or a network; a # begins a comment. `operations` lists
the operations of a command; the list decides about each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property

import msgspec

from amqproxy.rules.context import CommandContext
from amqproxy.rules.matching.condition import Condition
from amqproxy.rules.matching.match import Match, networks
from amqproxy.rules.matching.operations import Operation, UnknownName
from amqproxy.rules.matching.patterns import Predicate, predicate, takes_all
from amqproxy.rules.matching.tokens import TextError, Token, tokens_of
from amqproxy.rules.suggestions import did_you_mean

ACTS: dict[str, tuple[frozenset[str], ...]] = {
    "publish": (frozenset({"exchange", "routing_key", "queue"}),),
    "consume": (frozenset({"queue"}),),
    "get": (frozenset({"queue"}),),
    "declare": (frozenset({"exchange"}), frozenset({"queue"})),
    "delete": (frozenset({"exchange"}), frozenset({"queue"})),
    "bind": (frozenset({"exchange", "queue", "routing_key"}),),
    "unbind": (frozenset({"exchange", "queue", "routing_key"}),),
    "purge": (frozenset({"queue"}),),
    "connect": (frozenset(),),
}
"""For each act, the sets of objects that a line about it can name."""

ANY = "any"
_WHO = ("user", "address", "vhost")
_OBJECTS = ("exchange", "queue", "routing_key", "vhost")

_TOKEN = re.compile(
    r"""(?P<blank>[^\S\n]+|\#[^\n]*)
      | (?P<text>"(?:[^"\\\n]|\\.)*")
      | (?P<word>\w+)
      | (?P<end>[\n;])
      | (?P<comma>,)
      | (?P<odd>.)""",
    re.VERBOSE,
)


class Line(msgspec.Struct, frozen=True, dict=True):
    """One line of an access list.

    `number` is its line number in the text, with a letter if several lines share that line; `does_allow`, `who`, `acts`
    and `objects` are its parsed parts. An `otherwise` line decides about everything that the lines before it leave
    open.
    """

    number: str
    text: str
    does_allow: bool
    acts: frozenset[str]
    who: Mapping[str, tuple[str, ...]] = {}
    objects: Mapping[str, tuple[str, ...]] = {}
    is_otherwise: bool = False

    @property
    def is_keyed(self) -> bool:
        """Whether matching a publish needs its content header."""
        return "publish" in self.acts and bool({"routing_key", "queue"} & self.objects.keys())

    @cached_property
    def _about_client(self) -> tuple[Condition, ...]:
        return Match(**self.who).conditions()  # type: ignore[arg-type]

    def is_for(self, context: CommandContext) -> bool:
        """Whether the line is about the client of `context`."""
        return all(each.holds(context) for each in self._about_client)

    @cached_property
    def _predicates(self) -> tuple[tuple[str, Predicate, bool], ...]:
        return tuple((key, predicate(patterns), takes_all(patterns)) for key, patterns in self.objects.items())

    def holds_of(self, operation: Operation) -> bool:
        """Whether the line applies to the operation. An unknown name may be any: it is denied, but never allowed."""
        if operation.act not in self.acts or (operation.is_implied and "queue" not in self.objects):
            return False
        for key, holds, takes_everything in self._predicates:
            name = getattr(operation, key)
            if isinstance(name, UnknownName):
                is_about = takes_everything if self.does_allow else key == "queue" or "exchange" in self.objects
            else:
                is_about = name is not None and holds(name)
            if not is_about:
                return False
        return True


def parse(text: str) -> tuple[Line, ...]:
    """Return the lines of a list; raise `TextError` with the error and its place."""
    return tuple(_Parser(text).lines())


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens_of(text, _TOKEN)
        for token in self._tokens:
            if token.kind == "odd":
                is_text = token.text == '"'
                what = "this text is not closed on its line" if is_text else f"`{token.text}` has no meaning here"
                raise self._error(token, what)
        self._at = 0

    def lines(self) -> Iterator[Line]:
        last: Token | None = None
        is_empty = True
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            if token.kind == "end":
                self._at += 1
                continue
            if last is not None:
                raise self._error(token, "nothing can follow `otherwise`, which is about all that is left")
            if token.text == "otherwise":
                last = token
            is_empty = False
            yield self._line()
        if is_empty:
            raise TextError("the list is empty: write at least one line", self._text, 0)

    def _line(self) -> Line:
        first = self._word("allow", "deny", "otherwise")
        number = self._number(first)
        if first.text == "otherwise":
            does_allow = self._word("allow", "deny").text == "allow"
            self._end()
            return Line(number, self._since(first), does_allow, frozenset(ACTS), is_otherwise=True)
        does_allow = first.text == "allow"
        who = self._who()
        self._word("to")
        acts = [self._word(*ACTS, ANY)]
        while self._peek().kind == "comma":
            self._at += 1
            acts.append(self._word(*ACTS, ANY))
        objects = self._named(_OBJECTS)
        self._end()
        for key in who.keys() & objects.keys():
            raise self._error(acts[-1], f"the {key} is given before `to` already")
        if "vhost" in objects:
            who["vhost"] = objects.pop("vhost")
        meant = frozenset(name for act in acts for name in self._meant(act, objects.keys()))
        return Line(number, self._since(first), does_allow, meant, who, objects)

    def _number(self, first: Token) -> str:
        number = self._text.count("\n", 0, first.place) + 1
        start = self._text.rfind("\n", 0, first.place) + 1
        earlier = sum(token.text == ";" and start <= token.place < first.place for token in self._tokens)
        return f"{number}{chr(ord('a') + earlier)}" if 0 < earlier < 26 else f"{number}"

    def _since(self, first: Token) -> str:
        """Return the source text from a token to the last token read."""
        last = self._tokens[self._at - 2]
        return self._text[first.place : last.place + len(last.text)]

    def _who(self) -> dict[str, tuple[str, ...]]:
        if self._peek().text == "anyone":
            self._at += 1
            return {}
        if self._peek().text not in _WHO:
            self._word("anyone", *_WHO)
        return self._named(_WHO)

    def _named(self, keys: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """Parse texts by their keywords, up to `to`."""
        named: dict[str, tuple[str, ...]] = {}
        while self._peek().kind == "word" and self._peek().text != "to":
            key = self._word(*keys)
            if key.text in named:
                raise self._error(key, f"the {key.text} is given twice: put a comma between its patterns")
            named[key.text] = self._texts(key.text)
        return named

    def _texts(self, key: str) -> tuple[str, ...]:
        texts = []
        while True:
            token = self._peek()
            if token.kind != "text":
                raise self._error(token, f"{_article(key)} is wanted here, in double quotes")
            self._at += 1
            value = token.text[1:-1].replace('\\"', '"')
            try:
                networks(value) if key == "address" else predicate(value)
            except ValueError as error:
                raise self._error(token, str(error)) from None
            texts.append(value)
            if self._peek().kind != "comma":
                return tuple(texts)
            self._at += 1

    def _meant(self, act: Token, keys: AbstractSet[str]) -> Iterable[str]:
        """Return the acts of a word that can be done to the objects of the line."""
        names = [name for name in (ACTS if act.text == ANY else [act.text]) if any(keys <= each for each in ACTS[name])]
        if not names:
            raise self._error(act, f"what `{act.text}` is about has no {' and '.join(sorted(keys))}")
        return names

    def _peek(self) -> Token:
        return self._tokens[self._at]

    def _word(self, *words: str) -> Token:
        token = self._peek()
        if token.kind != "word" or token.text not in words:
            wanted = f"`{words[0]}`" if len(words) == 1 else f"one of {', '.join(words)}"
            what = f"{wanted} is wanted here"
            raise self._error(token, what + (did_you_mean(token.text, words) if token.kind == "word" else ""))
        self._at += 1
        return token

    def _end(self) -> None:
        token = self._peek()
        if token.kind != "end":
            raise self._error(token, "the line should end here")
        self._at += 1

    def _error(self, token: Token, what: str) -> TextError:
        return TextError(what, self._text, token.place)


def _article(key: str) -> str:
    return {"address": "an address or a network", "user": "a user's name"}.get(key, f"the name of a {key}")
