"""The schemas of the JSON contracts, in docs/schemas. `python -m tests.schemas` writes them anew."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import msgspec

from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.record import Record
from amqproxy.views.statistics import Statistics

FOLDER = Path(__file__).parent.parent / "docs" / "schemas"
CONTRACTS: dict[str, Any] = {"finding": Finding, "frame": Record, "message": MessageRecord, "statistics": Statistics}


def schema_of(name: str) -> dict[str, Any]:
    schema = json.loads(json.dumps(msgspec.json.schema(CONTRACTS[name])))  # in which lists are not tuples
    for definition in schema["$defs"].values():
        if "description" in definition:
            definition["description"] = inspect.cleandoc(definition["description"])  # indented before Python 3.13
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


if __name__ == "__main__":
    for each in CONTRACTS:
        (FOLDER / f"{each}.json").write_text(json.dumps(schema_of(each), indent=2) + "\n")
