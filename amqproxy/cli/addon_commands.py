"""Commands of addons, and the list of all addons."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from importlib import import_module
from typing import Any

import cyclopts

from amqproxy import addons
from amqproxy.cli.failure import Failure

_LISTING = ("completion", "config", "man", "version")
"""Commands that list all commands, or addons."""


def add_addon_commands(app: cyclopts.App, arguments: Sequence[str]) -> None:
    """Add the commands of addons, unless the arguments name one of ours, which then starts sooner."""
    name = arguments[0] if arguments else ""
    if name in app and name not in _LISTING and not name.startswith("-"):
        return

    def check(name: str, command: Any) -> None:
        if not callable(command):
            raise ValueError("it is neither a function nor a cyclopts.App")
        if name in app:
            raise ValueError("amqproxy has a command of that name")

    for name, command in addons.loaded(addons.COMMANDS, check).items():
        app.command(command if isinstance(command, cyclopts.App) else _contained(name, command), name=name)


def _contained(name: str, command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command; what it raises becomes a `Failure` that names its addon."""

    @wraps(command)
    def contained(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except (Failure, OSError):
            raise
        except Exception as error:
            addons.fail(addons.COMMANDS, name, error)
            raise Failure(f"{name}: the addon has failed: {type(error).__name__}: {error}") from error

    contained.__signature__ = inspect.signature(command, eval_str=True)  # type: ignore[attr-defined]
    return contained


def addon_lines() -> Iterator[str]:
    """Yield a line for each installed addon, and why it cannot be used."""
    if not addons.installed():
        return
    from amqproxy.bodies.body_views import check_body_decoder
    from amqproxy.cli.export import check_export
    from amqproxy.proxy.logins.addon_tokens import check_token_function
    from amqproxy.taps.findings.inspector import added

    import_module("amqproxy.rules.actions")  # which loads the rules
    added()
    addons.loaded(addons.BODIES, check_body_decoder)
    addons.loaded(addons.EXPORTS, check_export)
    addons.loaded(addons.TOKENS, check_token_function)
    for each in addons.installed():
        reason = addons.failure(each)
        yield f"addon: {each}" if reason is None else f"addon: {each} cannot be used: {reason}"
