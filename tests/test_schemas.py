"""The JSON contracts have schemas in docs/schemas. `python -m tests.test_schemas` writes them anew."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.record import Record
from tests.capture import golden

FOLDER = Path(__file__).parent.parent / "docs" / "schemas"
CONTRACTS: dict[str, Any] = {"finding": Finding, "frame": Record, "message": MessageRecord}


def schema_of(name: str) -> dict[str, Any]:
    schema = json.loads(json.dumps(msgspec.json.schema(CONTRACTS[name])))  # in which lists are not tuples
    for definition in schema["$defs"].values():
        if "description" in definition:
            definition["description"] = inspect.cleandoc(definition["description"])  # indented before Python 3.13
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


@pytest.mark.parametrize("name", CONTRACTS)
def test_the_schemas_are_of_today(name: str) -> None:
    assert json.loads((FOLDER / f"{name}.json").read_text()) == schema_of(name)


def test_every_golden_line_is_valid() -> None:
    for name, suffix in (("frame", ".jsonl"), ("message", ".messages.jsonl")):
        validator = jsonschema.Draft202012Validator(schema_of(name))
        paths = [
            path for path in golden.FOLDER.glob(f"*{suffix}") if suffix != ".jsonl" or ".messages." not in path.name
        ]
        assert len(paths) > 5
        for path in paths:
            for line in path.read_text().splitlines():
                validator.validate(json.loads(line))


if __name__ == "__main__":
    for each in CONTRACTS:
        (FOLDER / f"{each}.json").write_text(json.dumps(schema_of(each), indent=2) + "\n")
