"""`amqproxy control`: queries and commands for a running proxy, through its control socket."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import cyclopts
import msgspec
from cyclopts import Parameter

from amqproxy.cli import control_lists, control_switches, control_upstreams
from amqproxy.cli.control_connection import connected
from amqproxy.cli.failure import MISUSED, Failure
from amqproxy.cli.options import Flag, Json, Socket, SocketConfig

app = cyclopts.App(name="control", help="Query and control a running proxy through its control socket.")
for each in (*control_lists.COMMANDS, *control_switches.COMMANDS, *control_upstreams.COMMANDS):
    app.command(each)


@app.command
def reload(*, socket: Socket = None, config: SocketConfig = None) -> None:
    """Reload the proxy's config file; a file with errors changes nothing.

    Rules, upstreams, routes, logins, certificates and listeners are applied; other changes are
    listed, and need a restart.
    """
    with connected(socket, config) as asked:
        answer = asked.ask("reload")
    count = answer["rules"]
    print(f"{count} rule{'' if count == 1 else 's'}", file=sys.stderr)
    for key in answer.get("restart", ()):
        print(f"{key} has changed: that needs a restart", file=sys.stderr)


@app.command
def rules(*, socket: Socket = None, config: SocketConfig = None, json: Json = False) -> None:
    """Print the rules with their counters."""
    from amqproxy.control import formatting

    with connected(socket, config) as asked:
        _print_entries(asked.ask("rules")["rules"], lambda each: formatting.rules([each]), json)


@app.command
def rules_set(file: Path, /, *, socket: Socket = None, config: SocketConfig = None) -> None:
    """Replace all rules of the proxy with those in a file, until its config file is reloaded.

    Parameters
    ----------
    file
        A .toml, .yaml or .json file that contains only rules; - is TOML on standard input.
    """
    with connected(socket, config) as asked:
        answer = asked.ask("rules-set", **_rules_in(file))
    _report_rules(file, answer, ", until the next reload")


@app.command
def rules_check(file: Path, /, *, socket: Socket = None, config: SocketConfig = None) -> None:
    """Check the rules in a file as `rules-set` would, and change nothing.

    Parameters
    ----------
    file
        A .toml, .yaml or .json file that contains only rules; - is TOML on standard input.
    """
    with connected(socket, config) as asked:
        answer = asked.ask("rules-check", **_rules_in(file))
    _report_rules(file, answer, "")


@app.command
def rules_get(*, socket: Socket = None, config: SocketConfig = None, json: Flag = False) -> None:
    """Print the rules in force in YAML, as in a config file.

    Parameters
    ----------
    json
        Print one JSON object instead.
    """
    import yaml

    with connected(socket, config) as asked:
        answer = asked.ask("rules-get")
    found = {"rules": answer["rules"]}
    print(msgspec.json.encode(found).decode() if json else yaml.safe_dump(found, sort_keys=False), end="")
    if json:
        print()
    sys.stdout.flush()
    if answer["source"] == "control":
        print("set through the control socket, until the next reload", file=sys.stderr)


@app.command
def rules_end(rule: str, /, *, socket: Socket = None, config: SocketConfig = None) -> None:
    """End a temporary rule, such as one that was made on the dashboard.

    Parameters
    ----------
    rule
        Its name.
    """
    with connected(socket, config) as asked:
        asked.ask("rules-end", rule=rule)


@app.command
def rules_remove(rule: str, /, *, socket: Socket = None, config: SocketConfig = None) -> None:
    """Remove a rule, until the config file is reloaded.

    Parameters
    ----------
    rule
        Its name.
    """
    with connected(socket, config) as asked:
        asked.ask("rules-remove", rule=rule)


@app.command
def rules_shadow(rule: str, /, *, socket: Socket = None, config: SocketConfig = None) -> None:
    """Switch a rule to shadow mode, in which it only counts what it would do, until the config file is reloaded.

    Parameters
    ----------
    rule
        Its name.
    """
    with connected(socket, config) as asked:
        asked.ask("rules-shadow", rule=rule)


@app.command
def rules_enforce(rule: str, /, *, socket: Socket = None, config: SocketConfig = None) -> None:
    """Enforce a rule that is in shadow mode, until the config file is reloaded.

    Parameters
    ----------
    rule
        Its name.
    """
    with connected(socket, config) as asked:
        asked.ask("rules-enforce", rule=rule)


@app.command
def sessions(*, socket: Socket = None, config: SocketConfig = None, json: Json = False) -> None:
    """Print the sessions in short: state, user, held commands and pauses. `connections` shows more."""
    from amqproxy.control import formatting

    with connected(socket, config) as asked:
        _print_entries(asked.ask("sessions")["sessions"], lambda each: formatting.sessions([each]), json)


@app.command
def held(
    *, watch: Flag = False, body: int = 1024, socket: Socket = None, config: SocketConfig = None, json: Json = False
) -> None:
    """Print the commands that rules hold, each with the session and the number that `release` takes.

    Parameters
    ----------
    watch
        Keep running, and print each newly held command, until Ctrl-C.
    body
        Maximum number of body bytes to show.
    """
    from amqproxy.control import formatting

    with connected(socket, config) as asked:
        found = asked.ask("watch" if watch else "held", body=body)["held"]
        _print_entries(map(_read_by_addons, found), formatting.held, json)
        for event in asked.events() if watch else ():
            if event.get("event") == "held":
                _print_entries([_read_by_addons(event["held"])], formatting.held, json)
            else:
                print(f"amqproxy: {event.get('count')} more were held and are not shown", file=sys.stderr)


@app.command
def release(
    session: int,
    number: int,
    /,
    *,
    drop: Flag = False,
    refuse: Flag = False,
    with_: Annotated[
        Literal["close", "nack", "return", "drop", "reject", "requeue"] | None, Parameter(name="--with")
    ] = None,
    code: int | None = None,
    text: str | None = None,
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = (),
    property_: Annotated[tuple[str, ...], Parameter(name="--property", negative="")] = (),
    header: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    body: str | None = None,
    body_file: Path | None = None,
    socket: Socket = None,
    config: SocketConfig = None,
) -> None:
    """Release a held command: forward it, edited if requested, refuse it, or drop it.

    Parameters
    ----------
    session
        The session, as listed by `held`.
    number
        The number of the command in the session.
    drop
        Drop it; its sender receives a success reply.
    refuse
        Refuse it; its sender receives an error.
    with_
        With --refuse: the way, as in a rule; by default, the channel is closed, or the session ended.
    code
        With --refuse: the reply code.
    text
        With --refuse: the reply text.
    set_
        NAME=VALUE: a field of the method, such as routing_key=other. Values are JSON, or else text.
    property_
        NAME=VALUE: a property, such as priority=5; null removes it.
    header
        NAME=VALUE: a header of the message; null removes it.
    body
        The new body.
    body_file
        A file with the new body.
    """
    if drop and refuse:
        raise Failure("control release: give --drop or --refuse, not both", MISUSED)
    edit = {"fields": _assigned("--set", set_), "properties": _assigned("--property", property_)}
    edit["headers"] = _assigned("--header", header)
    edit = {name: values for name, values in edit.items() if values}
    if body is not None or body_file is not None:
        edit["body"] = _body(body, body_file)
    verdict = "drop" if drop else "refuse" if refuse else "pass"
    options = {"verdict": verdict, "edit": edit or None, "with": with_, "code": code, "text": text}
    with connected(socket, config) as asked:
        asked.ask("release", session=session, number=number, **options)


@app.command
def close(
    session: int,
    /,
    *,
    channel: int | None = None,
    text: str | None = None,
    socket: Socket = None,
    config: SocketConfig = None,
) -> None:
    """Close a client's connection with reply code 320, or one of its channels or sessions with 406.

    Parameters
    ----------
    session
        The session, as listed by `sessions`.
    channel
        Close only the channel with this number.
    text
        The reply text [closed by an operator].
    """
    with connected(socket, config) as asked:
        asked.ask("close", session=session, channel=channel, text=text)


@app.command
def pause(session: int, /, *, channel: int | None = None, socket: Socket = None, config: SocketConfig = None) -> None:
    """Pause a connection or a channel: queue the client's commands until `resume`, but forward the broker's.

    Parameters
    ----------
    session
        The session, as listed by `sessions`.
    channel
        Pause only the channel with this number.
    """
    with connected(socket, config) as asked:
        asked.ask("pause", session=session, channel=channel)


@app.command
def resume(session: int, /, *, channel: int | None = None, socket: Socket = None, config: SocketConfig = None) -> None:
    """End a `pause`, and forward the queued commands in order.

    Parameters
    ----------
    session
        The session, as listed by `sessions`.
    channel
        The number of the channel, if `pause` named one.
    """
    with connected(socket, config) as asked:
        asked.ask("resume", session=session, channel=channel)


def _rules_in(file: Path) -> dict[str, str]:
    """Return the control socket's parameters for the rules in a file."""
    formats = {".toml": "toml", ".yaml": "yaml", ".yml": "yaml", ".json": "json"}
    if str(file) == "-":
        return {"text": sys.stdin.read(), "name": "standard input"}
    if file.suffix not in formats:
        raise Failure(f"{file}: the name must end in .toml, .yaml, .yml or .json", MISUSED)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Failure(f"{file}: cannot be read: {reason}") from None
    return {"text": text, "format": formats[file.suffix], "name": str(file)}


def _report_rules(file: Path, answer: dict[str, Any], more: str) -> None:
    for warning in answer["warnings"]:
        print(f"{file}: warning: {warning}", file=sys.stderr)
    count = answer["rules"]
    print(f"{count} rule{'' if count == 1 else 's'}{more}", file=sys.stderr)


def _read_by_addons(entry: dict[str, Any]) -> dict[str, Any]:
    """Return a held command with what an addon reads in its body."""
    from amqproxy.bodies.addon_bodies import decoded_body
    from amqproxy.taps.message_record import whole_body

    found = decoded_body(whole_body(entry.get("body"), entry.get("size")), entry.get("properties"))
    return entry if found is None else {**entry, "decoded": found}


def _print_entries(
    entries: Iterable[dict[str, Any]], formatting: Callable[[dict[str, Any]], Iterable[str]], json: bool
) -> None:
    for entry in entries:
        for line in [msgspec.json.encode(entry).decode()] if json else formatting(entry):
            print(line)
    sys.stdout.flush()


def _assigned(option: str, assignments: Iterable[str]) -> Any:
    """Parse NAME=VALUE assignments; values are JSON, or else text."""
    found = {}
    for each in assignments:
        name, sign, value = each.partition("=")
        if not sign or not name:
            raise Failure(f"control release: {option} {each}: write NAME=VALUE", MISUSED)
        try:
            found[name] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            found[name] = value
    return found


def _body(text: str | None, file: Path | None) -> Any:
    """Return the control socket's parameter for a body."""
    if file is None:
        return text
    if text is not None:
        raise Failure("control release: give --body or --body-file, not both", MISUSED)
    try:
        return {"base64": base64.b64encode(file.read_bytes()).decode()}
    except OSError as error:
        raise Failure(f"{file}: cannot be read: {error.strerror}") from None
