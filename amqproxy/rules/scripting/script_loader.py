"""Loader of Python files of the configuration, which reports their errors by file and line."""

from __future__ import annotations

import inspect
import linecache
import traceback
from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import Any

from amqproxy.amqp091.methods import BY_NAME
from amqproxy.rules.resources import Resources
from amqproxy.rules.suggestions import did_you_mean


class ScriptError(ValueError):
    """An error in a configured Python file; the text begins with the file and the line.

    `outline` is the part of the text that cannot contain a peer's data.
    """

    def __init__(self, text: str, outline: str | None = None) -> None:
        super().__init__(text)
        self.outline = text if outline is None else outline


HOOKS: Mapping[str, str] = {
    {"basic.return": "return_"}.get(name, name.removeprefix("basic.").replace(".", "_").replace("-", "_")): name
    for name in BY_NAME
}
"""Names of script functions, and the method of each."""

LOAD, ANY = "load", "command"
_PARAMETERS = ("command", "context")


def module(source: str, file: str) -> ModuleType:
    """Run `source` and return its module; raise `ScriptError` on failure."""
    made = ModuleType(file.rpartition("/")[2].removesuffix(".py"))
    made.__file__ = file
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)  # so that tracebacks show it
    try:
        exec(compile(source, file, "exec", dont_inherit=True), made.__dict__)
    except SyntaxError as error:
        raise ScriptError(f"{error.filename}:{error.lineno}: {error.msg}") from None
    except BaseException as error:  # noqa: BLE001 - any exception is its failure, SystemExit too
        raise fault(error, file) from None
    return made


def fault(error: BaseException, file: str) -> ScriptError:
    """Return the error with the line of `file` that led to it."""
    if isinstance(error, ScriptError):
        return error
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    place = f"{file}:{lines[-1]}" if lines else file
    outline = f"{place}: {type(error).__name__}"
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - a class of the script's own
        text = ""
    return ScriptError(f"{outline}: {text}" if text else outline, outline)


def called(hook: Callable[..., Any], file: str, *arguments: Any) -> Any:
    """Return what a function of `file` returns; `ScriptError` if it raises, even SystemExit or KeyboardInterrupt."""
    try:
        return hook(*arguments)
    except BaseException as error:  # noqa: BLE001 - a script must not end more than its command
        raise fault(error, file) from None


def function(name: str, resources: Resources) -> tuple[Callable[..., Any], str]:
    """Return the function of "module:function" or "file.py:function", and its file.

    Raise `ValueError` if there is none.
    """
    place, _, attribute = name.rpartition(":")
    if not place or not attribute:
        raise ValueError(f"`{name}` is not of the form module:function or file.py:function")
    if not place.endswith(".py"):
        found = resources.function(name)
        code = getattr(found, "__code__", None)
        return found, place if code is None else code.co_filename
    named: Any = getattr(module(resources.text(place), place), attribute, None)
    if not callable(named):
        raise ValueError(f"{place} has no function `{attribute}`")
    return named, place


def hooks(source: str, file: str) -> dict[str, Callable[..., Any]]:
    """Return the functions of a script by name; raise `ScriptError` for a wrong name or signature."""
    found: dict[str, Callable[..., Any]] = {}
    for name, value in vars(module(source, file)).items():
        if name.startswith("_") or not isinstance(value, FunctionType) or value.__code__.co_filename != file:
            continue
        line = value.__code__.co_firstlineno
        parameters = tuple(inspect.signature(value).parameters)
        if name in HOOKS or name in (LOAD, ANY):
            _check_parameters(value, 1 if name == LOAD else 2, f"{file}:{line}")
            found[name] = value
        elif parameters == _PARAMETERS:
            raise ScriptError(f"{file}:{line}: `{name}` is not named for a method{did_you_mean(name, [*HOOKS, ANY])}")
    if not found.keys() - {LOAD}:
        raise ScriptError(f"{file}: it has no function for any method, such as `publish(command, context)`")
    return found


def _check_parameters(hook: Callable[..., Any], count: int, place: str) -> None:
    if inspect.iscoroutinefunction(hook) or inspect.isgeneratorfunction(hook):
        raise ScriptError(f"{place}: `{hook.__name__}` must be a plain function, not a coroutine or generator")
    try:
        inspect.signature(hook).bind(*[None] * count)
    except TypeError:
        wanted = ", ".join(_PARAMETERS[-count:])
        raise ScriptError(f"{place}: `{hook.__name__}` must take ({wanted})") from None
