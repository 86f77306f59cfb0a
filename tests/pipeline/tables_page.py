"""docs/tables.md, made of what `schema` declares.

`python -m tests.pipeline.tables_page` writes it anew.
"""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.sql.types import DataType, StructType

from amqproxy.pipeline import schema

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"

HEAD = """# The tables of the pipeline

What [the pipeline](pipeline.md) makes of captures. This page is made from `amqproxy/pipeline/schema.py`: the comments
are on the columns in Spark, too (`DESCRIBE TABLE`). Columns ending in `_ns` count nanoseconds, since 1970 (UTC) or of a
duration; `time` is the same time in whole microseconds. What does not apply, or is not known, is null.
"""


def purpose(name: str) -> str:
    """What a table has a row for: what stands behind its declaration."""
    source = Path(schema.__file__).read_text()
    found = re.search(rf'^{name.upper()} = .*?^"""(.+?)"""', source, re.DOTALL | re.MULTILINE)
    assert found, name
    return found[1]


def kind(of: DataType) -> str:
    return of.simpleString()


def columns(table: StructType) -> str:
    lines = ["| column | type | holds |", "| --- | --- | --- |"]
    lines += [f"| `{each.name}` | `{kind(each.dataType)}` | {each.metadata['comment']} |" for each in table.fields]
    return "\n".join(lines)


def page() -> str:
    """The page with the tables as they are declared."""
    parts = [HEAD, f"On disk, each table has besides:\n\n{columns(schema.STORED)}\n"]
    parts += [f"## {name}\n\n{purpose(name)}\n\n{columns(table)}\n" for name, table in schema.TABLES.items()]
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
