"""Changes to the body of a message: as text, as JSON, or by a configured function."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal, Self

import jsonpatch
import jsonpointer
import msgspec
import msgspec.structs

from amqproxy.rules.context import CommandContext
from amqproxy.rules.matching.patterns import regular_expression
from amqproxy.rules.matching.templates import Template
from amqproxy.rules.resources import Resources
from amqproxy.rules.rewriting.renaming import check_groups
from amqproxy.rules.rewriting.substitution import Substitution, TooMuchWork
from amqproxy.rules.scripting import script_loader
from amqproxy.rules.scripting.api import Context

_decode = msgspec.json.Decoder(float_hook=Decimal).decode
_encode = msgspec.json.Encoder(decimal_format="number").encode
"""Encoder that keeps all digits of numbers."""


_WANTED = {"add": "value", "replace": "value", "test": "value", "move": "from", "copy": "from"}
"""Members that each operation needs besides its path; the library checks them only when it patches."""


class UnsuitableBody(ValueError):
    """Raised if a change does not apply to the body."""


class Replacement(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    r"""Replacement of a text, or of the matches of a regular expression (RE2); `with` may then contain `\1`."""

    text: str = ""
    regex: str = ""
    by: str = msgspec.field(name="with")

    def __post_init__(self) -> None:
        if bool(self.text) == bool(self.regex):
            raise ValueError("a replacement needs one of `text` and `regex`")
        if self.regex:
            expression = regular_expression(self.regex)
            check_groups(expression, self.by)
            self.__dict__["substitution"] = Substitution(expression, self.by)

    def applied(self, body: bytes) -> bytes:
        """Return the changed body; raise `UnsuitableBody` if it is not text, or the work exceeds the limit."""
        if self.text:
            return body.replace(
                self.text.encode("utf-8", "surrogateescape"), self.by.encode("utf-8", "surrogateescape")
            )
        substitution: Substitution = self.__dict__["substitution"]
        try:
            body.decode()
            return substitution.applied(body)
        except UnicodeDecodeError:
            raise UnsuitableBody("the body is not UTF-8") from None
        except TooMuchWork as error:
            raise UnsuitableBody(str(error)) from None


class BodyEdit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    """Change of a body, in this order: set it, patch it as JSON (RFC 6902), replace texts, call a function.

    `set` is a template. `call` is "module:function" or "file.py:function"; the function receives the body's bytes and a
    `scripting.Context`, and returns bytes or text. `otherwise` applies if the body is not JSON or a patch does not fit:
    the message is refused with 541, or passes unchanged.
    """

    set: str | None = None
    json_patch: tuple[dict[str, Any], ...] = ()
    replace: tuple[Replacement, ...] = ()
    call: str = ""
    otherwise: Literal["fail", "pass"] = "fail"

    def __post_init__(self) -> None:
        for operation in self.json_patch:
            try:
                jsonpatch.JsonPatch([operation])
            except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as error:
                raise ValueError(f"`json_patch`: {error} (RFC 6902)") from None
            wanted = _WANTED.get(operation["op"], "path")
            if wanted not in operation:
                raise ValueError(f"`json_patch`: {operation['op']} needs a {wanted} (RFC 6902)")
        _ = self._template
        if self.call and ":" not in self.call:
            raise ValueError(f"`{self.call}` is not of the form module:function or file.py:function")

    def resolved(self, resources: Resources) -> Self:
        if not self.call:
            return self
        function, file = script_loader.function(self.call, resources)
        edit = msgspec.structs.replace(self)
        edit.__dict__.update(function=function, file=file)
        return edit

    def applied(self, body: bytes, context: CommandContext, script_context: Context) -> bytes:
        """Return the changed body; any exception refuses the message."""
        try:
            new = body if self._template is None else self._template.fill(context).encode("utf-8", "surrogateescape")
            if self.json_patch or self.replace:
                context.check_size(len(new))
            new = self._patched(new)
            return self._called(self._replaced(new), script_context)
        except UnsuitableBody:
            if self.otherwise == "fail":
                raise
            return body

    def _patched(self, body: bytes) -> bytes:
        if self._patch is None:
            return body
        try:
            document = _decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UnsuitableBody(f"the body is not JSON: {error}") from None
        try:
            return _encode(self._patch.apply(document, in_place=True))
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as error:
            raise UnsuitableBody(f"the patch does not fit the body: {error}") from None
        except RecursionError:  # newer Pythons decode deeper than they copy
            raise UnsuitableBody("the body cannot be patched: its JSON is nested too deeply") from None

    def _replaced(self, body: bytes) -> bytes:
        for replacement in self.replace:
            body = replacement.applied(body)
        return body

    def _called(self, body: bytes, script_context: Context) -> bytes:
        if not self.call:
            return body
        function: Callable[[bytes, Context], Any] | None = self.__dict__.get("function")
        if function is None:
            raise ValueError(f"{self.call} has not been loaded")
        new = script_loader.called(function, self.__dict__["file"], body, script_context)
        if isinstance(new, str):
            return new.encode("utf-8", "surrogateescape")
        if not isinstance(new, (bytes, bytearray, memoryview)):
            raise script_loader.ScriptError(f"{self.call} returned a {type(new).__name__}, not bytes or text")
        return bytes(new)

    @cached_property
    def _template(self) -> Template | None:
        return None if self.set is None else Template(self.set)

    @cached_property
    def _patch(self) -> Any:
        return jsonpatch.JsonPatch(list(self.json_patch)) if self.json_patch else None
