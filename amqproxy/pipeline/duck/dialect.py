"""Translation of Spark's SQL to DuckDB's: by sqlglot, with replacements for the functions that it leaves."""

from __future__ import annotations

import json
import re
from typing import Any

from sqlglot import exp, parse_one

_HINT = re.compile(r"/\*\+.*?\*/", re.DOTALL)


def duckdb_text(text: str) -> str:
    """Return a query of Spark's in DuckDB's dialect. Raises `sqlglot.errors.SqlglotError` if it cannot be parsed."""
    tree = parse_one(_HINT.sub("", text), read="spark")
    for node in reversed(list(tree.walk())):  # what is within a function first
        made = _replaced(node)
        if made is not node:
            node.replace(made)
    return tree.sql(dialect="duckdb")


def _json_structure(kind: exp.DataType) -> Any:
    """Return a type as DuckDB's `from_json` has it: a value of JSON that contains the names of types."""
    if kind.is_type("array"):
        return [_json_structure(kind.expressions[0])]
    if kind.is_type("struct"):
        return {each.name: _json_structure(each.args["kind"]) for each in kind.expressions}
    return kind.sql(dialect="duckdb")


def _replaced(node: exp.Expr) -> exp.Expr:
    match node:
        case exp.Select() if node.args.get("sort"):  # there is one partition
            node.set("order", exp.Order(expressions=node.args["sort"].expressions))
            node.set("sort", None)
        case exp.Anonymous(this=str(name)) if name.lower() == "xxhash64":  # its values are kept nowhere
            return exp.func("key_of", exp.Anonymous(this="hash", expressions=node.expressions))
        case exp.FromJson():
            columns = exp.DataType.build(node.expression.name, dialect="spark")
            node.set("expression", exp.Literal.string(json.dumps(_json_structure(columns))))
            text = node.this  # a header may be other text, for which Spark returns null
            node.set("this", exp.Case().when(exp.func("json_valid", text.copy()), text.copy()))
        case exp.Format():
            return exp.Anonymous(this="printf", expressions=[node.this, *node.expressions])
        case exp.RegexpReplace():  # by Python: DuckDB's expressions look neither ahead nor back
            return exp.Anonymous(
                this="regexp_replaced", expressions=[node.this, node.expression, node.args["replacement"]]
            )
        case exp.ArrayUniqueAgg():
            return exp.func("set_of", exp.Anonymous(this="list", expressions=[node.this]))
        case exp.CountIf():
            return exp.Filter(this=exp.Count(this=exp.Star()), expression=exp.Where(this=node.this))
        case exp.ApproxQuantile():
            return exp.Anonymous(this="quantile_disc", expressions=[node.this, node.args["quantile"]])
        case exp.AtTimeZone():  # from_utc_timestamp
            return exp.func("local_time", node.this.this, node.args["zone"])
        case exp.DayOfWeek():  # from 1
            return exp.func("weekday_of", node.this)
    return node
