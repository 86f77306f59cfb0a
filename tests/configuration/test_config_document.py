"""Documents are counted before anything is built: depth, digits, and what aliases repeat."""

import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amqproxy.configuration.config import ConfigError
from amqproxy.configuration.config_document import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_NODES,
    MAX_TAGS,
    DocumentError,
    composed_yaml,
    loaded_toml,
    loaded_yaml,
)
from amqproxy.configuration.config_file import load, parse, rules_of_data
from tests.alias_bombs import LISTS, MERGES


@pytest.mark.parametrize("text", [LISTS, MERGES])
@pytest.mark.parametrize("read", [loaded_yaml, composed_yaml])
def test_aliases_count_as_what_they_repeat(text: str, read: Callable[[str], Any]) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DocumentError, match=f"more than {MAX_NODES} values") as error:
            read(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert error.value.line == 6 if text is LISTS else 7
    assert peak < 1024 * 1024


def test_a_few_aliases_are_expanded() -> None:
    assert loaded_yaml("a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: [*a, *a]") == {
        "a": {"x": 1},
        "b": {"x": 1, "y": 2},
        "c": [{"x": 1}, {"x": 1}],
    }


TOO_DEEP = f"more than {MAX_DEPTH} nested tables and lists"
TOO_LONG = "a number of 5000 characters, '9999999999999999999999999999999999999999…'"
DIGITS = "9" * 5000


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.yaml", LISTS, "a.yaml:6: more than 250000 values"),
        ("a.json.yaml", '{"x":\n' + "[" * 5000 + "]" * 5000 + "}", "a.json.yaml:2: "),
        ("a.yaml", "x: 1\ny:\n" + "- " * 5000, f"a.yaml:3: {TOO_DEEP}"),
        ("a.yaml", "".join(f"%TAG !{number}! x\n" for number in range(65)), "a.yaml:65: more than 64 %TAG directives"),
        ("a.yaml", "x: &x [1, *x]", "a.yaml:1: the alias *x is inside the value that it repeats: write the value out"),
        ("a.yaml", "x: 1\ny: [" + "a," * MAX_NODES + "]", "a.yaml:2: more than 250000 values"),
        ("a.yaml", f"x: 1\ny: {DIGITS}", f"a.yaml:2: {TOO_LONG}"),
        ("a.yaml", "x: 1" + ":1" * 5000, "a.yaml:1: a number of 10001 characters"),  # of base 60
        ("a.yaml", "x: !!bool often", "a.yaml:1: 'often' is not a valid bool: quote it if it is text"),
        ("a.yaml", "x: !!timestamp now", "a.yaml:1: 'now' is not a valid timestamp"),
        ("a.yaml", "x: 2024-13-45", "a.yaml:1: '2024-13-45' is not a valid timestamp"),
        ("a.yaml", "x: 1\nx: 2", "a.yaml:2: the key 'x' is here a second time: remove one"),
        ("a.yaml", f"x: 1\ny: !!int {{=: '{DIGITS}'}}", "a.yaml:2: expected a scalar node, but found mapping"),
        ("a.yaml", "x: !!bool {=: often}", "a.yaml:1: expected a scalar node, but found mapping"),
        ("a.yaml", "x: !!timestamp {=: now}", "a.yaml:1: expected a scalar node, but found mapping"),
        ("a.yaml", "x: !!set [a]", "a.yaml:1: expected a mapping node, but found sequence"),
        ("a.yaml", "x: !!map a", "a.yaml:1: expected a mapping node, but found scalar"),
        ("a.yaml", "x: 1\ny: [", "a.yaml:2: "),
        ("a.yaml", "x: 1\ny: \x01", "a.yaml:2: "),
        ("a.toml", "\nx = " + "[" * 5000 + "]" * 5000, f"a.toml:2: {TOO_DEEP}"),
        ("a.toml", "x = " + "{a = " * 5000 + "1" + "}" * 5000, f"a.toml:1: {TOO_DEEP}"),
        ("a.toml", "\n\n" + ".".join("a" * 1_000_000) + " = 1", f"a.toml:3: {TOO_DEEP}"),
        ("a.toml", "[" + ".".join(['"a"'] * 5000) + "]", f"a.toml:1: {TOO_DEEP}"),
        ("a.toml", "a.b.c = {" * 30, f"a.toml:1: {TOO_DEEP}"),
        ("a.toml", 'x = ["""a"""", {' + ".".join("a" * 5000) + ' = 1}, "b"]', f"a.toml:1: {TOO_DEEP}"),
        ("a.toml", "x = ['''a''''', {" + ".".join("a" * 5000) + " = 1}, 'b']", f"a.toml:1: {TOO_DEEP}"),
        ("a.toml", " . ".join([".".join("0" * 30)] * 100) + " = 1", f"a.toml:1: {TOO_DEEP}"),
        ("a.toml", "\n" + "[[x]]" * MAX_NODES, "a.toml:2: more than 250000 values"),
        ("a.toml", "x = [" + "1," * (MAX_NODES + 1) + "]", "a.toml:1: more than 250000 values"),
        ("a.toml", f"x = 1\ny = {DIGITS}", f"a.toml:2: {TOO_LONG}"),
        ("a.toml", f"x = 1\ny = 0x{DIGITS}", "a.toml:2: a number of 5002 characters"),
        ("a.toml", "x = 1\ny z", "a.toml:2: "),
        ("a.toml", f'[limits]\ndrain_timeout = "{DIGITS}s"', "a.toml:2: limits.drain_timeout: `9999"),
    ],
)
def test_a_config_beyond_the_limits_is_refused_with_file_and_line(
    name: str, text: str, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as error:
        parse(text, Path(name))
    assert str(error.value).startswith(reason)
    assert len(str(error.value)) < 2500
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError) as error:
        load(tmp_path / name)
    assert str(error.value).startswith(f"{tmp_path}/{reason}")


@pytest.mark.parametrize("unit", ['"\\', '"""\n\\', "'''", "'\n", "#", '"'])
def test_strings_without_an_end_take_a_time_linear_in_the_text(unit: str) -> None:
    before = time.process_time()
    with pytest.raises(DocumentError):
        loaded_toml(f"x = 1\n{unit * 30_000}\ny")
    assert time.process_time() - before < 10  # minutes, if each quote looked for its end in all that is left


@pytest.mark.parametrize("line_break", ["\n", "\r", "\r\n", "\x85", "\u2028", "\u2029"])
def test_tags_are_counted_behind_every_line_break(line_break: str) -> None:
    directives = line_break.join(f"%TAG !t{number}! x" for number in range(MAX_TAGS))
    assert loaded_yaml(f"{directives}\n--- {{a: '%TAG', b: 1 %TAG}}") == {"a": "%TAG", "b": "1 %TAG"}
    with pytest.raises(DocumentError, match=f"more than {MAX_TAGS} %TAG directives"):
        loaded_yaml(f"{directives}{line_break}%TAG !more! x\n--- 1")


def test_a_merged_key_is_not_a_second_one() -> None:
    """Wherever the mapping that overrides it stands: PyYAML constructs those of the inner levels last."""
    text = "base: &base {rate: 1}\nx: {y: {a: &a {<<: *base, rate: 2}}}\nb: {<<: *a, of: 3}\n"
    assert loaded_yaml(text) == {"base": {"rate": 1}, "x": {"y": {"a": {"rate": 2}}}, "b": {"rate": 2, "of": 3}}


def test_data_has_the_same_depth() -> None:
    data: Any = 1
    for _ in range(500):
        data = [data]
    with pytest.raises(ConfigError, match=TOO_DEEP):
        rules_of_data(data, Path("rules"), {}, directory=Path())


def test_what_is_within_the_limits_is_read() -> None:
    number = "9" * MAX_DIGITS
    text = "x" * 5000
    assert loaded_yaml(f"x: {number}\ny: '{number}9'") == {"x": int(number), "y": f"{number}9"}
    document = f"""
        x = {number}
        {text}{number}9 = "{"[" * 100} {number}9 \\" {"." * 100}"  # {"[" * 100}
        y = '''
            {"[{." * 100}'''
        z = '{"[" * 100}'
    """
    assert loaded_toml(document)["x"] == int(number)
    deep: Any = loaded_yaml("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    for _ in range(MAX_DEPTH - 1):
        [deep] = deep
    assert deep == []
