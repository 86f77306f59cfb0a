"""The JSON contracts have schemas in docs/schemas."""

from __future__ import annotations

import json

import jsonschema
import pytest

from tests.capture import golden
from tests.schemas import CONTRACTS, FOLDER, schema_of


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
