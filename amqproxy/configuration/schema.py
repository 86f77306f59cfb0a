"""The JSON Schema of a config file, with the docstrings of its keys as descriptions."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import msgspec

from amqproxy.configuration import config, login_config, tls_config, upstream_config
from amqproxy.configuration.config import Config
from amqproxy.configuration.values import Strict
from amqproxy.rules.units import may_be_text

_MODULES: tuple[Any, ...] = (tls_config, login_config, upstream_config, config)


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a config file."""
    found: dict[str, Any] = may_be_text(msgspec.json.schema(Config))
    definitions = found["$defs"]
    for module in _MODULES:
        for name, described in _descriptions(module).items():
            properties = definitions.get(name, definitions.get(f"{module.__name__}.{name}"))["properties"]
            for key, text in described.items():
                if "$ref" in properties[key]:  # some readers ignore everything beside it
                    properties[key] = {"allOf": [{"$ref": properties[key].pop("$ref")}], **properties[key]}
                properties[key]["description"] = text
    definitions["ClientTLS"]["dependentRequired"] = {"key": ["certificate"]}
    return found


def _descriptions(module: Any) -> dict[str, dict[str, str]]:
    """Return, for each struct of a module, the docstrings of its keys, or else of their types."""
    found: dict[str, dict[str, str]] = {}
    for each in ast.parse(inspect.getsource(module)).body:
        if isinstance(each, ast.ClassDef) and issubclass(getattr(module, each.name), Strict):
            texts = dict(found.get(ast.unparse(each.bases[0]), {}))  # a base comes before it in the module
            for statement, after in zip(each.body, [*each.body[1:], None], strict=True):
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    match after:
                        case ast.Expr(ast.Constant(str(text))):
                            texts[statement.target.id] = text
                        case _:
                            texts[statement.target.id] = _docstring_of_type(module, statement)
            found[each.name] = texts
    return found


def _docstring_of_type(module: Any, statement: ast.AnnAssign) -> str:
    """Return the docstring of the struct that is an annotation's first word; "" for a type that is none."""
    kind = getattr(module, ast.unparse(statement.annotation).split(" ")[0], None)
    return (inspect.getdoc(kind) or "") if inspect.isclass(kind) and issubclass(kind, Strict) else ""
