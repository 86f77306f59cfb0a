"""The words of rules, by which an editor completes them: their actions, and the keys and values of each."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from amqproxy.amqp091.methods import BY_NAME
from amqproxy.rules.actions import AnyRule
from amqproxy.rules.matching.match import Match

_KINDS: dict[type[inspect.Type], str] = {
    inspect.StrType: "a text",
    inspect.IntType: "a number",
    inspect.FloatType: "a number",
    inspect.BoolType: "true or false",
    inspect.ListType: "a list",
    inspect.VarTupleType: "a list",
    inspect.SetType: "a list",
    inspect.FrozenSetType: "a list",
    inspect.DictType: "a table",
    inspect.StructType: "a table",
}


class Key(msgspec.Struct, frozen=True):
    """A key of a table: its kind of value, the values that can be listed, and the tables that it may have."""

    kind: str
    values: list[str] = []
    tables: list[str] = []


class Words(msgspec.Struct, frozen=True):
    """A kind of table, such as one action: the key and value that choose it, its purpose, and its keys."""

    tag: tuple[str, str] | None
    meaning: str
    keys: dict[str, Key]


class RuleVocabulary(msgspec.Struct, frozen=True):
    """All kinds of tables by name, and the names of those that stand in the list of rules."""

    rules: list[str]
    tables: dict[str, Words]


@cache
def rule_vocabulary() -> RuleVocabulary:
    """Return the words of all rules, from the types that a config file is decoded into."""
    tables: dict[str, Words] = {}
    rules = _key(inspect.type_info(AnyRule), tables)
    method = tables[Match.__name__].keys["method"]
    tables[Match.__name__].keys["method"] = msgspec.structs.replace(method, values=sorted(BY_NAME))
    return RuleVocabulary(rules.tables, tables)


def _key(kind: inspect.Type, tables: dict[str, Words]) -> Key:
    """Return the key for values of a type, after adding the tables that it may have."""
    kinds, values, names = [], [], []
    for each in _alternatives(kind):
        match each:
            case inspect.LiteralType(values=literals):
                values += [str(value) for value in literals]
            case inspect.EnumType(cls=enumeration):
                values += [str(member.value) for member in enumeration]
            case inspect.BoolType():
                values += ["true", "false"]
            case inspect.StructType(cls=struct):
                _add(each, tables)
                names.append(struct.__name__)
            case (
                inspect.ListType(item_type=item)
                | inspect.VarTupleType(item_type=item)
                | inspect.SetType(item_type=item)
            ):
                within = _key(item, tables)
                values += within.values
                names += within.tables
            case _:
                pass
        kinds.append(_KINDS.get(type(each), ""))
    words = list(dict.fromkeys(each for each in kinds if each))
    return Key(" or ".join(words) or "one of a few", list(dict.fromkeys(values)), list(dict.fromkeys(names)))


def _alternatives(kind: inspect.Type) -> list[inspect.Type]:
    match kind:
        case inspect.UnionType(types=types):
            return [found for each in types for found in _alternatives(each)]
        case inspect.Metadata(type=inner):
            return _alternatives(inner)
        case _:
            return [kind]


def _add(struct: inspect.StructType, tables: dict[str, Words]) -> None:
    name = struct.cls.__name__
    if name in tables:
        return
    keys: dict[str, Key] = {}
    tag = (str(struct.tag_field), str(struct.tag)) if struct.tag_field else None
    tables[name] = Words(tag, _purpose(struct.cls), keys)
    for field in struct.fields:
        keys[field.encode_name] = _key(field.type, tables)


def _purpose(struct: Any) -> str:
    """Return the first sentence of a type's docstring."""
    return (struct.__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ").partition(". ")[0].rstrip(".")
