"""Type errors of expressions that are found when they are loaded."""

from __future__ import annotations

import itertools

import cel
import pytest

from amqproxy.rules.matching.expression_types import check_types
from amqproxy.rules.matching.filters import Filter
from amqproxy.rules.matching.tokens import TextError


@pytest.mark.parametrize(
    ("expression", "what"),
    [
        ("size > '10KB'", "`>` cannot compare a whole number with a text (line 1, column 6)"),
        ("exchange == 'a' && size > '10KB'", "`>` cannot compare a whole number with a text (line 1, column 25)"),
        ("exchange == 5", "a text is never equal to a whole number"),
        ("'5' != properties.priority", "a text is never equal to a whole number"),
        ("user < 5 || true", "`<` cannot compare a text with a whole number"),
        ("time > '2024-01-01'", "`>` cannot compare a timestamp with a text"),
        ("time.getHours() == '3'", "a whole number is never equal to a text"),
        ("size.getHours() > 3", "`getHours` is of a duration or a timestamp, and this is a whole number"),
        ("channel.is_confirming > 1", "`>` cannot compare true or false with a whole number"),
        ("channel.is_confirming && size", "`&&` joins true or false, and this is a whole number"),
        ("exchange || size > 1", "`||` joins true or false, and this is a text"),
        ("!exchange", "`!` is for true or false, and this is a text"),
        ("-exchange == 1", "`-` is for a number with a point or a whole number, and this is a text"),
        ("size + 'x' == 'y'", "`+` cannot be between a whole number and a text"),
        ("size * 1.5 > 100.0", "`*` cannot be between a whole number and a number with a point"),
        ("size in 'abc'", "`in` looks into a list or a table, and this is a text"),
        ("size(size) > 1", "`size` takes a list or a table or a text or bytes, and this is a whole number"),
        ("size.contains('a')", "`contains` wants a text, and this is a whole number"),
        ("exchange.startsWith(5)", "`startsWith` wants a text, and this is a whole number"),
        ("exchange.exists(x, x == 'a')", "`exists` goes over a list or a table, and this is a text"),
        ("tags == 'slow'", "a list is never equal to a text"),
        ("tags.all(t, size > 'x')", "`>` cannot compare"),
        ("(exchange ? 1 : 2) == 1", "`?` asks of true or false, and this is a text"),
        ("int(channel.is_confirming) == 1", "`int` takes"),
        ("headers.x > 5 && size > 'x'", "`>` cannot compare"),
        ("int('ten') < size", "`int` cannot convert 'ten'"),
        ("time - timestamp('yesterday') > duration('1h')", "`timestamp` cannot convert 'yesterday'"),
        ("time - time > duration('5 parsecs')", "`duration` cannot convert '5 parsecs'"),
        ("'a' == b'a'", "a text is never equal to bytes"),
        ("size[0] == 1 && size < 'x'", "`<` cannot compare"),
    ],
)
def test_what_never_can_be_evaluated(expression: str, what: str) -> None:
    with pytest.raises(TextError) as raised:
        Filter(expression)
    assert what in str(raised.value)


@pytest.mark.parametrize(
    "expression",
    [
        "size > 10000 && size < 10.5",
        "exchange == null || queue != null",
        "headers.x > 5",
        "headers['x'] == 'a' && arguments.n == 5",
        "json.order.total > 10 || json == 'text'",
        "properties.priority in [1, 2, 3]",
        "'slow' in tags && tags.exists(t, t.startsWith('s')) && size(tags) > 1",
        "has(headers.x) && headers.x",
        "time.getHours() > 3 && time < timestamp('2030-01-01T00:00:00Z') + duration('1h')",
        "int(user) > 5 || string(size) == '5' || double(size) * 1.5 > 1.0",
        "exchange.matches('a.*') && exchange + queue == 'ab'",
        "(size > 5 ? exchange : queue) == 'a'",
        "size - 1 == 4 && -size < 3 && size % 2 == 0",
        "headers.exists(name, headers[name] == 5)",
        "client.properties.product == 'pika' && 'x' in client.properties",
        "[1, 'a', {'b': 2}].size() == 3",
        "dyn(size) == 'a'",
        "body.size() > 3 && fields.reply_code == 200",
        'user == """it\'s""" || user == r\'a\\b\'',
    ],
)
def test_what_may_be_fine_is_let_be(expression: str) -> None:
    Filter(expression)


VALUES = {
    "int": "1",
    "uint": "1u",
    "double": "1.5",
    "text": "'a'",
    "flag": "true",
    "null": "null",
    "list": "['a']",
    "time": "timestamp('2024-01-01T00:00:00Z')",
    "duration": "duration('1s')",
    "table": "{'a': 1}",
    "bytes": "b'a'",
}


@pytest.mark.parametrize("sign", ["<", ">=", "+", "-", "*", "/", "%", "in", "&&", "||"])
def test_what_is_refused_the_library_refuses(sign: str) -> None:
    for left, right in itertools.product(VALUES.values(), repeat=2):
        expression = f"{left} {sign} {right}"
        try:
            cel.evaluate(expression)
        except (RuntimeError, TypeError, ValueError):
            continue
        if sign == "||" and "true" in (left, right):
            continue  # whose other side makes no difference to the library
        check_types(expression)


def test_what_is_not_understood_is_let_be() -> None:
    for expression in ("a b", ")", "size >", "x.y.z(", "[1, 2", "exchange.", "a ? b", "5..5"):
        check_types(expression)
