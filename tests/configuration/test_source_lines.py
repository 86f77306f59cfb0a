"""Where keys stand in config files."""

from __future__ import annotations

import pytest

from amqproxy.configuration.source_lines import line_of, path_of

TOML = """\
# rules
seed = 1
[log]
level = "debug"

[[rules]]
name = "first"
action = "log"
text = \"\"\"
[[rules]]
name = "not this"
\"\"\"
[rules.match]
exchange = "a"
"odd key".inner = 3

[[rules]]  # the second
name = "second"
match.queue = "q"
  [[rules.replace]]
  text = "a"
  [[rules.replace]]
  text = "b"
"""
YAML = """\
seed: 1
rules:
  - name: first
    match:
      exchange: a
  - {name: second, match: {queue: q},
     when: "size > 1"}
"""


def test_places_in_steps() -> None:
    assert path_of("rules[3].match.exchange") == ("rules", 3, "match", "exchange")
    assert path_of("limits.connections") == ("limits", "connections")
    assert path_of("") == ()


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("seed", 2),
        ("log.level", 4),
        ("rules", 6),
        ("rules[0]", 6),
        ("rules[0].name", 7),
        ("rules[0].text", 9),
        ("rules[0].match.exchange", 14),
        ("rules[0].match.queue", 13),
        ("rules[1]", 17),
        ("rules[1].match.queue", 19),
        ("rules[1].replace[0].text", 21),
        ("rules[1].replace[1].text", 23),
        ("rules[1].when", 17),
        ("nothing", None),
    ],
)
def test_lines_of_toml(place: str, line: int | None) -> None:
    found = line_of(TOML, path_of(place), is_toml=True)
    assert found == line or (place == "rules" and found is None)


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("seed", 1),
        ("rules", 2),
        ("rules[0]", 3),
        ("rules[0].match.exchange", 5),
        ("rules[1].match.queue", 6),
        ("rules[1].when", 7),
        ("rules[1].mode", 6),
        ("nothing", None),
    ],
)
def test_lines_of_yaml(place: str, line: int | None) -> None:
    assert line_of(YAML, path_of(place), is_toml=False) == line


def test_what_cannot_be_read_has_no_lines() -> None:
    assert line_of("a: [", ("a",), is_toml=False) is None
    assert line_of("= 1\n[=]\n", ("a",), is_toml=True) is None
