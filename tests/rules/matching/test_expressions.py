"""What is found in an expression before CEL itself looks at it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.rules.matching.expressions import examined
from amqproxy.rules.matching.tokens import TextError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("exchange == 'a'", {("exchange", (), False)}),
        ("client.properties.product == 'x'", {("client.properties", ("product",), False)}),
        ("client['properties']['a b'].c == 1", {("client.properties", ("a b", "c"), False)}),
        ("client . address == '1'", {("client.address", (), False)}),
        ("has(headers.x) && headers.x == 1", {("headers", ("x",), True), ("headers", ("x",), False)}),
        ("headers.all(h, h != queue)", {("headers", (), False), ("queue", (), False)}),
        ("headers.exists(h, h == 'a') && user == 'u'", {("headers", (), False), ("user", (), False)}),
        ("headers[routing_key] == 1", {("headers", (), False), ("routing_key", (), False)}),
        ("json.items[0].id == 1", {("json", ("items",), False)}),
        ("'exchange' == \"queue\" // user", set()),
        ('"""queue""" == r"\\user"', set()),
        ("{'queue': user}.queue == 'a'", {("user", (), False)}),
        ("body.startsWith('a') && size(body) > 0x1Fu", {("body", (), False)}),
        ("true && !false && null == null && 1 in [1]", set()),
    ],
)
def test_what_is_read(text: str, expected: set[tuple[str, tuple[str, ...], bool]]) -> None:
    found = {(read.name.path, read.keys, read.is_guarded) for read in examined(text).reads}
    assert found == expected


@pytest.mark.parametrize(
    ("text", "what", "place"),
    [
        ('exchnge == "a"', "there is no `exchnge`: did you mean `exchange`?", (1, 1)),
        ('exchange == "a" &&\n  foo(queue)', "there is no function `foo`", (2, 3)),
        ("exchange.startWith('a')", "there is no function `startWith`: did you mean `startsWith`?", (1, 10)),
        ("client == 1", "name one of `client`: address, port, properties", (1, 1)),
        ("client.addres == 'x'", "`client` has no `addres`: did you mean `address`?", (1, 8)),
        ("properties['priorit'] > 1", "`properties` has no `priorit`: did you mean `priority`?", (1, 13)),
        ("properties[queue] > 1", "name one of `properties`", (1, 11)),
        ("exchange.foo == 'a'", "`exchange` is a text, and has no `foo`", (1, 1)),
        ("size.x == 1", "`size` is a number, and has no `x`", (1, 1)),
        ("a.b.c", "there is no `a`", (1, 1)),
        ("queue.matches(queue)", "wants its pattern written out", (1, 7)),
        ("matches(queue, 'a')", "wants its pattern written out", (1, 1)),
        ("headers.all(h, headers.all(i, i == h))", "a macro inside a macro could take too long", (1, 24)),
        ("headers.all(h, h == 'a') && h == 'b'", "there is no `h`", (1, 29)),
        ("queue == 'a", "this text is not closed", (1, 10)),
        ("x" * 5000, "the expression has 5000 characters, the limit is 4096", (1, 4097)),
    ],
)
def test_what_is_wrong_is_pointed_at(text: str, what: str, place: tuple[int, int]) -> None:
    with pytest.raises(TextError) as raised:
        examined(text)
    assert what in str(raised.value)
    assert f"(line {place[0]}, column {place[1]})" in str(raised.value)


pieces = ["exchange", "headers", "client", "has", "all", "x", "1", "'a'", '"', *".()[],= \n"]


@given(st.lists(st.sampled_from(pieces)).map("".join) | st.text())
def test_whatever_is_written_is_examined_or_refused(text: str) -> None:
    try:
        examined(text)
    except TextError as error:
        message = str(error)
    else:
        message = "^"
    assert "^" in message
