"""All that is defined, field by field, against the XML of the specification and of Qpid's errata."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from amqproxy.amqp010 import commands, controls, domains, frame, properties, results, structs, wire
from amqproxy.amqp010.methods import BY_INDEX, BY_NAME, METHODS, Command, Method, spec_name
from tests.real.require import missing

SPECIFICATIONS = Path("/usr/share/amqp/specs")
"""Where Debian's package amqp-specs keeps them."""

PLAIN = "0-10/amqp.0-10.stripped.xml"
ERRATA = "0-10-qpid/amqp.0-10-qpid-errata.stripped.xml"

both = pytest.mark.parametrize("file", [PLAIN, ERRATA])

ENUMERATIONS = {
    "file.return-code": domains.ReturnCode,
    "stream.return-code": domains.ReturnCode,
}
"""Those whose names differ from the specification's."""

KNOWN = (commands, controls, properties, results)


def specification(file: str) -> Element:
    path = SPECIFICATIONS / file
    if not path.exists():
        missing("the specification of AMQP", "apt-get install amqp-specs")
    root = ElementTree.parse(path).getroot()
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def number(element: Element, attribute: str) -> int:
    return int(element.get(attribute, ""), 0)


class Names:
    """What the names of types and domains stand for, as a class of the specification sees them."""

    def __init__(self, root: Element) -> None:
        self.domains = {each.get("name", ""): each for each in root.findall("domain")}
        self.structs: dict[str, Element] = {}
        for cls in root.iter("class"):
            name = cls.get("name", "")
            self.domains |= {f"{name}.{each.get('name')}": each for each in cls.findall("domain")}
            self.structs |= {f"{name}.{each.get('name')}": each for each in cls.iter("struct")}

    def found(self, name: str, cls: str, among: dict[str, Element]) -> str | None:
        return next((each for each in (f"{cls}.{name}", name) if each in among), None)

    def resolved(self, name: str, cls: str) -> tuple[str, str | None]:
        """The primitive type or struct behind a name, and the enumeration on the way to it."""
        domain = self.found(name, cls, self.domains)
        if domain is not None:
            primitive, enumeration = self.resolved(self.domains[domain].get("type", ""), cls)
            return primitive, domain if self.domains[domain].find("enum") is not None else enumeration
        return self.found(name, cls, self.structs) or name, None


def enumeration(name: str) -> Any:
    return ENUMERATIONS.get(name) or getattr(domains, camel(name.rpartition(".")[2]))


def camel(name: str) -> str:
    return "".join(word.title() for word in name.split("-"))


def specified_fields(element: Element, cls: str, names: Names) -> list[tuple[str, str, bool, Any]]:
    """The name, the type, whether it is required and the enumeration of each field."""
    fields = []
    for field in element.findall("field"):
        primitive, choices = names.resolved(field.get("type", ""), cls)
        is_required = field.get("required") == "true"
        fields.append((field.get("name", ""), primitive, is_required, enumeration(choices) if choices else None))
    return fields


TYPES = {code: name for name, code in wire.FIELD_CODES.items()} | {
    wire.REPLY_TO: "message.reply-to",
    wire.XID: "dtx.xid",
}


def our_fields(cls: type[Method] | type[structs.Struct]) -> list[tuple[str, str, bool, Any]]:
    return [
        (spec_name(field).replace("_", "-"), TYPES[code], field in cls.required, cls.choices.get(field))
        for field, code in zip(cls.fields, cls.layout, strict=True)
    ]


def described(root: Element) -> Iterator[tuple[str, Element, Element]]:
    for cls in root.iter("class"):
        for method in (*cls.findall("control"), *cls.findall("command")):
            yield f"{cls.get('name')}.{method.get('name')}", cls, method


@both
def test_types(file: str) -> None:
    root = specification(file)
    for type_ in root.findall("type"):
        name = type_.get("name", "")
        code = wire.FIELD_CODES[name]
        if type_.get("code"):
            assert code == number(type_, "code") == wire.code_of(name)
            if type_.get("fixed-width"):
                assert wire.width_of(code) == number(type_, "fixed-width")
            else:
                assert wire.width_of(code) is None
                assert 1 << ((code >> 4) & 3) == number(type_, "variable-width")
        else:
            assert code not in wire.CODES.values(), name
    assert {each.get("name") for each in root.findall("type")} == set(wire.FIELD_CODES)


@both
def test_constants(file: str) -> None:
    constants = {each.get("name"): number(each, "value") for each in specification(file).findall("constant")}
    assert constants == {"MIN-MAX-FRAME-SIZE": frame.FRAME_MIN_SIZE}


@both
def test_controls_and_commands(file: str) -> None:
    root = specification(file)
    names = Names(root)
    for name, cls, method in described(root):
        ours = BY_NAME[name]
        assert (ours.class_code, ours.method_code) == (number(cls, "code"), number(method, "code")), name
        assert METHODS[ours.class_code << 8 | ours.method_code] is ours
        assert ours.segment.name.lower() == method.tag
        assert our_fields(ours) == specified_fields(method, cls.get("name", ""), names), name


@both
def test_there_are_no_others(file: str) -> None:
    root = specification(file)
    assert [cls.name for cls in BY_INDEX if cls.segment == domains.SegmentType.CONTROL] == [
        name for name, _, method in described(root) if method.tag == "control"
    ]
    assert [cls.name for cls in BY_INDEX if cls.segment == domains.SegmentType.COMMAND] == [
        name for name, _, method in described(root) if method.tag == "command"
    ]
    assert set(structs.BY_NAME) == set(Names(root).structs) - {"session.header"}


@both
def test_who_handles_what(file: str) -> None:
    for name, _, method in described(specification(file)):
        ours = BY_NAME[name]
        roles = [(each.get("role"), each.get("handle")) for each in method.findall("implement")]
        if (name, file) == ("connection.heartbeat", PLAIN):
            assert not roles, "only the errata say who handles it"
            roles = [("client", "MAY"), ("server", "MAY")]
        assert ours.must == tuple(role for role, handle in roles if handle == "MUST"), name
        assert ours.may == tuple(role for role, handle in roles if handle == "MAY"), name


@both
def test_what_answers_what(file: str) -> None:
    for name, cls, method in described(specification(file)):
        responses = tuple(f"{cls.get('name')}.{each.get('name')}" for each in method.findall("response"))
        assert BY_NAME[name].responses == responses


@both
def test_results(file: str) -> None:
    for name, cls, method in described(specification(file)):
        ours = BY_NAME[name]
        result = method.find("result")
        if result is None:
            assert not isinstance(ours, Command) or ours.result is None
            continue
        inner = result.find("struct")
        struct = result.get("type") if inner is None else inner.get("name")
        assert issubclass(ours, Command)
        assert ours.result is structs.BY_NAME[f"{cls.get('name')}.{struct}"]


@both
def test_headers_and_bodies(file: str) -> None:
    for name, cls, method in described(specification(file)):
        ours = BY_NAME[name]
        segments = method.find("segments")
        assert ours.carries_content is (segments is not None), name
        if segments is None:
            continue
        assert issubclass(ours, Command)
        header, body = segments
        assert (header.tag, body.tag) == ("header", "body")
        entries = [f"{cls.get('name')}.{entry.get('type')}" for entry in header.findall("entry")]
        assert [entry.name for entry in ours.entries] == entries
        assert ours.requires_header is (header.get("required") == "true")
        assert body.get("required") is None


@both
def test_exceptions(file: str) -> None:
    for name, _, method in described(specification(file)):
        expected = {each.get("name", ""): each.get("error-code", "") for each in method.findall("exception")}
        for field in method.findall("field"):
            prefix = field.get("name", "").replace("-", "_")
            expected |= {f"{prefix}.{each.get('name')}": each.get("error-code", "") for each in field.iter("exception")}
        ours = BY_NAME[name]
        known = ours.exceptions if issubclass(ours, Command) else {}
        assert {each: spelled(code.name) for each, code in known.items()} == expected, name


def spelled(name: str) -> str:
    return name.lower().replace("_", "-")


@both
def test_enumerations(file: str) -> None:
    names = Names(specification(file))
    listed = {name: domain for name, domain in names.domains.items() if domain.find("enum") is not None}
    for name, domain in listed.items():
        choices = {each.get("name"): number(each, "value") for each in domain.iter("choice")}
        assert {spelled(each.name): each.value for each in enumeration(name)} == choices, name
    assert len({enumeration(name) for name in listed}) == sum(
        isinstance(each, type) and each.__module__ == domains.__name__ for each in vars(domains).values()
    )


@both
def test_structs(file: str) -> None:
    root = specification(file)
    names = Names(root)
    for name, struct in names.structs.items():
        cls, _, short = name.partition(".")
        if name == "session.header":  # which `Command` has as its `sync`
            assert (number(struct, "size"), number(struct, "pack")) == (1, 1)
            assert specified_fields(struct, cls, names) == [("sync", "bit", False, None)]
            continue
        ours = structs.BY_NAME[name]
        code = number(struct, "code") if struct.get("code") else None
        if code is not None:
            code |= next(number(each, "code") for each in root.iter("class") if each.get("name") == cls) << 8
        form = (number(struct, "size"), number(struct, "pack"), code)
        if (file, short) == (PLAIN, "xid"):
            assert form == (2, 2, None)
            assert (ours.size, ours.pack, ours.code) == (4, 2, 0x0604), "as the errata have it"
        else:
            assert (ours.size, ours.pack, ours.code) == form, name
        assert our_fields(ours) == specified_fields(struct, cls, names), name
        for field in struct.findall("field"):
            if field.get("default") is not None:
                assert getattr(ours(), field.get("name", "").replace("-", "_")) == number(field, "default")
        if code is not None:
            assert structs.BY_CODE[code] is ours


def test_a_field_that_is_no_word_of_python_is_spelled_as_in_the_specification() -> None:
    assert commands.FileQos(prefetch_count=1, global_=True).to_dict() == {"prefetch_count": 1, "global": True}
    assert controls.SessionAttach(b"s").to_dict() == {"name": b"s", "force": False}
