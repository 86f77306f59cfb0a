"""Who may do what, in lines that are read aloud: the compact form of allowing and refusing.

    list := line (newline or ";" line)*
    line := ("allow" or "deny") who "to" act ("," act)* object*
          | "otherwise" ("allow" or "deny")
    who := "anyone" | (("user" or "address" or "vhost") text ("," text)*)+
    act := "publish" | "consume" | "get" | "declare" | "delete" | "bind" | "unbind" | "purge" | "connect" | "any"
    object := ("exchange" or "queue" or "routing_key" or "vhost") text ("," text)*

A text is a pattern in double quotes, for an address an address or a network; what follows a # is a comment. Binding one
exchange to another is allowed where both may be bound, and denied where either may not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from amqproxy.amqp091.methods import BY_NAME
from amqproxy.rules.match import Match, networks
from amqproxy.rules.pattern import predicate
from amqproxy.rules.token import TextError, Token, tokens_of
from amqproxy.rules.wording import like

ACTS: dict[str, tuple[str, ...]] = {
    "publish": ("basic.publish",),
    "consume": ("basic.consume",),
    "get": ("basic.get",),
    "declare": ("exchange.declare", "queue.declare"),
    "delete": ("exchange.delete", "queue.delete"),
    "bind": ("queue.bind", "exchange.bind"),
    "unbind": ("queue.unbind", "exchange.unbind"),
    "purge": ("queue.purge",),
    "connect": ("connection.open",),
}
"""What may be done, and the methods that do it."""

ANY = "any"
_BOTH_EXCHANGES = frozenset({"exchange.bind", "exchange.unbind"})
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


class Line(msgspec.Struct, frozen=True):
    """One line: its number in the text, with a letter where it is not the first there; what it says, whether it allows
    or denies, and the commands that it is about."""

    number: str
    text: str
    does_allow: bool
    matches: tuple[Match, ...]


def parse(text: str) -> tuple[Line, ...]:
    """The lines of a list; `TextError` says what is wrong, and where."""
    return tuple(_Parser(text).lines())


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens_of(text, _TOKEN)
        for token in self._tokens:
            if token.kind == "odd":
                is_text = token.text == '"'
                what = "this text does not end on its line" if is_text else f"`{token.text}` has no meaning here"
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
            raise TextError("an empty list allows and denies nothing", self._text, 0)

    def _line(self) -> Line:
        first = self._word("allow", "deny", "otherwise")
        number = self._number(first)
        if first.text == "otherwise":
            does_allow = self._word("allow", "deny").text == "allow"
            self._end()
            every = Match(method=tuple([name for names in ACTS.values() for name in names]))
            return Line(number, self._since(first), does_allow, (every,))
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
            raise self._error(acts[-1], f"the {key} is said before `to` already")
        about = who | objects
        return Line(number, self._since(first), does_allow, tuple(self._matches(acts, about, does_allow)))

    def _number(self, first: Token) -> str:
        number = self._text.count("\n", 0, first.place) + 1
        start = self._text.rfind("\n", 0, first.place) + 1
        earlier = sum(token.text == ";" and start <= token.place < first.place for token in self._tokens)
        return f"{number}{chr(ord('a') + earlier)}" if 0 < earlier < 26 else f"{number}"

    def _since(self, first: Token) -> str:
        """What has been taken, from this token on."""
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
        """Texts under their keys, as long as such follow."""
        named: dict[str, tuple[str, ...]] = {}
        while self._peek().kind == "word" and self._peek().text != "to":
            key = self._word(*keys)
            if key.text in named:
                raise self._error(key, f"the {key.text} is said twice: put a comma between its patterns")
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

    def _matches(self, acts: list[Token], about: dict[str, tuple[str, ...]], does_allow: bool) -> Iterator[Match]:
        fields = about.keys() & {"exchange", "queue", "routing_key"}
        for act in acts:
            names = [name for each in ACTS.values() for name in each] if act.text == ANY else list(ACTS[act.text])
            names = [name for name in names if all(_has(name, field) for field in fields)]
            if not names:
                raise self._error(act, f"what `{act.text}` is about has no {' and '.join(sorted(fields))}")
            both = [name for name in names if name in _BOTH_EXCHANGES and "exchange" in about]
            others = tuple([name for name in names if name not in both])
            if others:
                yield Match(method=others, **about)  # type: ignore[arg-type]
            if both and does_allow:
                yield Match(method=tuple(both), destination=about["exchange"], **about)  # type: ignore[arg-type]
            elif both:
                rest = {key: value for key, value in about.items() if key != "exchange"}
                yield Match(method=tuple(both), **about)  # type: ignore[arg-type]
                yield Match(method=tuple(both), destination=about["exchange"], **rest)  # type: ignore[arg-type]

    def _peek(self) -> Token:
        return self._tokens[self._at]

    def _word(self, *words: str) -> Token:
        token = self._peek()
        if token.kind != "word" or token.text not in words:
            wanted = f"`{words[0]}`" if len(words) == 1 else f"one of {', '.join(words)}"
            what = f"{wanted} is wanted here"
            raise self._error(token, what + (like(token.text, words) if token.kind == "word" else ""))
        self._at += 1
        return token

    def _end(self) -> None:
        token = self._peek()
        if token.kind != "end":
            raise self._error(token, "the line should end here")
        self._at += 1

    def _error(self, token: Token, what: str) -> TextError:
        return TextError(what, self._text, token.place)


def _has(method: str, field: str) -> bool:
    fields = BY_NAME[method].__struct_fields__
    return field in fields or (field == "exchange" and "source" in fields)


def _article(key: str) -> str:
    return {"address": "an address or a network", "user": "a user's name"}.get(key, f"the name of a {key}")
