"""The command `amqproxy`: data on standard output, all else on standard error.

Exit codes: 0 done; 1 the work failed (a capture cannot be read, an address cannot be had); 2 wrong
usage or a wrong config; 130 interrupted twice; 141 whoever read the output has gone away.
"""

from __future__ import annotations

import base64
import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import cyclopts
import msgspec
from cyclopts import Parameter

from amqproxy import __version__, _pure
from amqproxy.config import Broker, Config, ConfigError, Listener, Log, Metrics, Upstream, dump, explained, load, schema

if TYPE_CHECKING:
    from amqproxy.control.counterpart import Counterpart
    from amqproxy.rules.filters import Filter
    from amqproxy.taps.record import Record

FAILED, MISUSED, INTERRUPTED, UNHEARD = 1, 2, 130, 141

app = cyclopts.App(
    name="amqproxy",
    help="See, count and steer what AMQP clients and their broker say to each other.",
    help_epilogue="Exit codes: 0 done, 1 failed, 2 wrong usage or config, 130 interrupted twice, "
    "141 the reader of the output went away.",
    help_format="plaintext",
    version=__version__,
    result_action="return_value",
    exit_on_error=False,
    print_error=True,
)
config_app = cyclopts.App(name="config", help="Check, show and describe config files.")
app.command(config_app)
rules_app = cyclopts.App(name="rules", help="Check and explain the rules of a config file.")
app.command(rules_app)
control_app = cyclopts.App(name="control", help="Ask a proxy that runs, through its control socket.")
app.command(control_app)
broker_app = cyclopts.App(name="broker")
app.command(broker_app)


class Failure(Exception):
    """What the user is to be told, and the exit code."""

    def __init__(self, text: str, code: int = FAILED) -> None:
        super().__init__(text)
        self.code = code


@app.command
def run(
    *,
    listen: str | None = None,
    upstream: str | None = None,
    metrics: str | None = None,
    print_: Annotated[bool, Parameter(name="--print", negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
    filter: str | None = None,
    log_format: Literal["text", "json"] | None = None,
    log_level: Literal["debug", "info", "warning", "error"] | None = None,
    config: Path | None = None,
) -> None:
    """Stand between clients and a broker until SIGTERM or Ctrl-C, and then drain.

    Flags go before what the config file says. TLS, limits, rules and several listeners are in the file only. On SIGHUP
    the file's rules are read again.

    Parameters
    ----------
    listen
        HOST:PORT where clients connect [127.0.0.1:5673]. Port 0 takes a free one.
    upstream
        HOST:PORT of the broker [127.0.0.1:5672], or "broker" for the integrated one.
    metrics
        HOST:PORT for Prometheus, at /metrics. Off unless given.
    print_
        Print each frame that passes on standard output, as it passes.
    json
        With --print: one JSON object a line for each frame, as `decode --json` does.
    filter
        With --print: a CEL expression, as rules have them: only the commands for which it holds. See docs/rules.md.
    log_format
        How the log on standard error is written [text].
    log_level
        The least important events to log [info].
    config
        A .toml, .yaml or .yml file; see `amqproxy config show`.
    """
    import trio

    from amqproxy import app as root
    from amqproxy import log

    def read() -> Config:
        return _merged(load(config) if config else Config(), listen, upstream, metrics, log_format, log_level)

    settings = read()
    log.start(settings.log)
    try:
        render = _renderer(json) if print_ or json or filter else None
        trio.run(root.run, settings, render, read if config else None, _filter(filter))
    except root.Unavailable as error:
        raise Failure(str(error)) from None


@broker_app.default
def broker(
    *,
    listen: str | None = None,
    data: Path | None = None,
    definitions: Path | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    tls_client_ca: Path | None = None,
    config: Path | None = None,
    log_format: Literal["text", "json"] | None = None,
    log_level: Literal["debug", "info", "warning", "error"] | None = None,
) -> None:
    """Be an AMQP broker until SIGTERM or Ctrl-C.

    Flags go before what the config file says in [broker]. Limits and several listeners are in the file only.

    Parameters
    ----------
    listen
        HOST:PORT where clients connect [127.0.0.1:5672]. Port 0 takes a free one.
    data
        A directory for what is durable, which is found again there. Without one, all is in memory.
    definitions
        A definitions.json, as RabbitMQ exports it: users, virtual hosts, permissions, queues and so on.
    tls_cert
        A certificate in PEM: clients must then speak TLS.
    tls_key
        The key of the certificate, in PEM, without a password.
    tls_client_ca
        The authority, in PEM, that must have signed a certificate of each client's, who may then log in by it.
    config
        A .toml, .yaml or .yml file; see `amqproxy config show`.
    log_format
        How the log on standard error is written [text].
    log_level
        The least important events to log [info].
    """
    import trio

    from amqproxy import app as root
    from amqproxy import log

    settings = _merged(load(config) if config else Config(), None, None, None, log_format, log_level)
    files = {"certificate": tls_cert, "key": tls_key, "client_ca": tls_client_ca}
    tls = {name: str(file) for name, file in files.items() if file}
    merged = _merged_broker(settings.broker, listen, data, definitions, tls)
    log.start(settings.log)
    try:
        trio.run(root.run_broker, merged)
    except root.Unavailable as error:
        raise Failure(str(error)) from None


@broker_app.command
def export(*, data: Path) -> None:
    """Print what a broker has kept as a definitions.json, which RabbitMQ imports too.

    That is: users, virtual hosts, permissions, policies, queues, exchanges and bindings, but no messages. The broker
    must not be running.

    Parameters
    ----------
    data
        The directory that `amqproxy broker --data` was given.
    """
    import trio

    from amqproxy import app as root
    from amqproxy import log

    log.start(Log(level="warning"))
    try:
        found = trio.run(root.export, data)
    except root.Unavailable as error:
        raise Failure(str(error)) from None
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")


@app.command
def decode(
    *files: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    json: Annotated[bool, Parameter(negative="")] = False,
    filter: str | None = None,
) -> None:
    """Decode the AMQP in captures: pcap or pcapng, plain or gzip; - is standard input.

    Parameters
    ----------
    files
        The captures, in order.
    json
        One JSON object a line for each frame, instead of text.
    filter
        A CEL expression, as rules have them: only the frames of commands for which it holds. See docs/rules.md.
    """
    from amqproxy.capture.choice import chosen
    from amqproxy.capture.decode import read_passed
    from amqproxy.capture.notices import CaptureError, Notice, NoticeKind
    from amqproxy.capture.passed import records_of

    if not files:
        raise Failure("decode: name a capture, or - for standard input", MISUSED)
    unknown = [file for file in files if str(file).startswith("-") and str(file) != "-"]
    if unknown:
        raise Failure(f"decode: unknown option {unknown[0]}; for a file of that name, say ./{unknown[0]}", MISUSED)
    render = _renderer(json)
    wanted = _filter(filter)
    write = sys.stdout.write
    count = 0

    def notify(notice: Notice) -> None:
        if notice.kind is NoticeKind.CUT_SHORT and not notice.offset:
            raise Failure(str(notice))  # not even the file's own header is whole
        if notice.kind is not NoticeKind.IGNORED or not count:
            print(f"amqproxy: {notice}", file=sys.stderr)

    for file in files:
        count = 0
        try:
            passed = read_passed(file, notify)
            for record in chain.from_iterable(map(records_of, chosen(passed, wanted) if wanted else passed)):
                write(render(record) + "\n")
                count += 1
        except CaptureError as error:
            sys.stdout.flush()
            raise Failure(str(error)) from None


@config_app.command
def check(*files: Path) -> None:
    """Check config files, and say what is wrong with the first that is. Certificates are looked at too.

    Parameters
    ----------
    files
        .toml, .yaml or .yml files.
    """
    if not files:
        raise Failure("config check: name a file", MISUSED)
    from amqproxy.sockets.tls import client_context, server_context

    for file in files:
        found = load(file)
        for listener in (*found.listen, *found.broker.listen):
            if listener.tls:
                server_context(listener.tls)
        if isinstance(found.upstream, Upstream) and found.upstream.tls:
            client_context(found.upstream.tls)
        print(f"{file}: fine", file=sys.stderr)


@config_app.command
def show(file: Path | None = None, /) -> None:
    """Print the whole config, defaults included, as YAML.

    Parameters
    ----------
    file
        A config file; without one, the defaults.
    """
    sys.stdout.write(dump(load(file) if file else Config()))


@config_app.command(name="schema")
def show_schema() -> None:
    """Print the JSON Schema of config files, for editors and checks."""
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(schema()), indent=2) + b"\n")


@rules_app.command(name="check")
def check_rules(*files: Path) -> None:
    """Check the rules of config files, and say what is wrong with the first that are.

    Parameters
    ----------
    files
        .toml, .yaml or .yml files.
    """
    if not files:
        raise Failure("rules check: name a file", MISUSED)
    for file in files:
        count = len(load(file).rules)
        print(f"{file}: {count} rule{'' if count == 1 else 's'}, fine", file=sys.stderr)


@rules_app.command(name="test")
def rehearse_rules(
    file: Path,
    /,
    *,
    capture: Path,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Say what the rules would have done to the traffic in a capture.

    Parameters
    ----------
    file
        A config file.
    capture
        A pcap or pcapng file, plain or gzip; - is standard input.
    json
        One JSON object a line for each command that they would have acted on, instead of text.
    """
    from amqproxy.capture.decode import read_passed
    from amqproxy.capture.notices import CaptureError
    from amqproxy.capture.passed import FramesPassed
    from amqproxy.capture.rehearsal import Rehearsal

    rehearsal = Rehearsal(load(file).rules)
    try:
        for passed in read_passed(capture, lambda notice: print(f"amqproxy: {notice}", file=sys.stderr)):
            if isinstance(passed, FramesPassed):
                for rehearsed in rehearsal.play(passed):
                    print(msgspec.json.encode(rehearsed).decode() if json else str(rehearsed))
    except CaptureError as error:
        sys.stdout.flush()
        raise Failure(str(error)) from None
    print(f"{rehearsal.commands} commands", file=sys.stderr)
    for name, counts in rehearsal.rules.counts().items():
        shadow = f", {counts.shadow_hits} in shadow" if counts.shadow_hits else ""
        failed = f", failed {counts.errors} times" if counts.errors else ""
        print(f"  {name}: {counts.hits}{shadow}{failed}", file=sys.stderr)


@rules_app.command(name="explain")
def explain_rules(
    file: Path,
    /,
    *,
    user: str | None = None,
    vhost: str | None = None,
    address: str | None = None,
    sender: Literal["client", "server"] | None = None,
    method: str | None = None,
    exchange: str | None = None,
    queue: str | None = None,
    routing_key: str | None = None,
    consumer_tag: str | None = None,
) -> None:
    """Say what each rule does, and which would have their say in a command; what is not given stays open.

    Parameters
    ----------
    file
        A config file.
    user
        Whom the client says it is.
    vhost
        The virtual host that it has entered.
    address
        The IP address that it comes from.
    sender
        Who says the command.
    method
        The command's method, such as basic.publish.
    exchange
        The exchange that it names.
    queue
        The queue that it names.
    routing_key
        Its routing key.
    consumer_tag
        Its consumer tag.
    """
    from amqproxy.amqp091.grammar import Peer
    from amqproxy.rules.explanation import Inquiry
    from amqproxy.rules.explanation import explained as in_words

    said = {"user": user, "vhost": vhost, "client.address": address, "exchange": exchange, "queue": queue}
    said |= {"routing_key": routing_key, "consumer_tag": consumer_tag}
    given = {name: value for name, value in said.items() if value is not None}
    try:
        inquiry = Inquiry(given, method, Peer(sender) if sender else None)
    except ValueError as error:
        raise Failure(f"rules explain: {error}", MISUSED) from None
    for line in in_words(load(file).rules, inquiry):
        print(line)


@control_app.command(name="reload")
def control_reload(*, socket: Path | None = None, config: Path | None = None) -> None:
    """Let the proxy read the rules of its config file again. A file that is wrong changes nothing.

    Parameters
    ----------
    socket
        The proxy's control socket.
    config
        The config file that names it.
    """
    with _counterpart(socket, config) as asked:
        count = asked.ask("reload")["rules"]
    print(f"{count} rule{'' if count == 1 else 's'}", file=sys.stderr)


@control_app.command(name="rules")
def control_rules(
    *,
    socket: Path | None = None,
    config: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Print which rules there are, and what they have done so far.

    Parameters
    ----------
    socket
        The proxy's control socket.
    config
        The config file that names it.
    json
        One JSON object a line for each, instead of text.
    """
    from amqproxy.control import lines

    with _counterpart(socket, config) as asked:
        _print_entries(asked.ask("rules")["rules"], lambda each: lines.rules([each]), json)


@control_app.command(name="sessions")
def control_sessions(
    *,
    socket: Path | None = None,
    config: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Print who is connected.

    Parameters
    ----------
    socket
        The proxy's control socket.
    config
        The config file that names it.
    json
        One JSON object a line for each, instead of text.
    """
    from amqproxy.control import lines

    with _counterpart(socket, config) as asked:
        _print_entries(asked.ask("sessions")["sessions"], lambda each: lines.sessions([each]), json)


@control_app.command(name="held")
def control_held(
    *,
    watch: Annotated[bool, Parameter(negative="")] = False,
    body: int = 1024,
    socket: Path | None = None,
    config: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Print what rules hold: each begins with the session and the number that `release` wants.

    Parameters
    ----------
    watch
        Go on, and print whatever begins to wait, until Ctrl-C.
    body
        How many octets of a body are shown.
    socket
        The proxy's control socket.
    config
        The config file that names it.
    json
        One JSON object a line for each, instead of text.
    """
    from amqproxy.control import lines

    with _counterpart(socket, config) as asked:
        _print_entries(asked.ask("watch" if watch else "held", body=body)["held"], lines.held, json)
        for event in asked.events() if watch else ():
            if event.get("event") == "held":
                _print_entries([event["held"]], lines.held, json)
            else:
                print(f"amqproxy: {event.get('count')} more began to wait, and were not shown", file=sys.stderr)


@control_app.command(name="release")
def control_release(
    session: int,
    number: int,
    /,
    *,
    drop: Annotated[bool, Parameter(negative="")] = False,
    refuse: Annotated[bool, Parameter(negative="")] = False,
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
    socket: Path | None = None,
    config: Path | None = None,
) -> None:
    """Let go on what is held: as it is, changed, or not at all.

    Parameters
    ----------
    session
        The session, as `held` says it.
    number
        Its number there.
    drop
        It goes no further, and its sender is told that all is well.
    refuse
        It goes no further, and its sender is told so.
    with_
        With --refuse: how, as in a rule; usually the channel is closed.
    code
        With --refuse: the reply code.
    text
        With --refuse: the reply text.
    set_
        NAME=VALUE: a field of the method, such as routing_key=other. Values are JSON, or else text.
    property_
        NAME=VALUE: a property, such as priority=5; null takes it away.
    header
        NAME=VALUE: a header of the message; null takes it away.
    body
        Another body.
    body_file
        A file with another body.
    socket
        The proxy's control socket.
    config
        The config file that names it.
    """
    if drop and refuse:
        raise Failure("control release: what is dropped is not refused: say --drop or --refuse", MISUSED)
    edit = {"fields": _assigned("--set", set_), "properties": _assigned("--property", property_)}
    edit["headers"] = _assigned("--header", header)
    edit = {name: values for name, values in edit.items() if values}
    if body is not None or body_file is not None:
        edit["body"] = _body(body, body_file)
    verdict = "drop" if drop else "refuse" if refuse else "pass"
    said = {"verdict": verdict, "edit": edit or None, "with": with_, "code": code, "text": text}
    with _counterpart(socket, config) as asked:
        asked.ask("release", session=session, number=number, **said)


@app.command
def version() -> None:
    """Print the version, and whether the decoder is compiled."""
    print(f"amqproxy {__version__} ({'compiled' if _pure.is_compiled() else 'plain'})")


@app.command
def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a completion script, e.g. for `source <(amqproxy completion bash)`.

    Parameters
    ----------
    shell
        The shell to complete in.
    """
    print(app.generate_completion(shell=shell))


def _merged(
    config: Config,
    listen: str | None,
    upstream: str | None,
    metrics: str | None,
    log_format: str | None,
    log_level: str | None,
) -> Config:
    """The config with what the flags say instead; `ConfigError` names the flag that is wrong."""
    changes: dict[str, object] = {}
    if listen:
        changes["listen"] = (_from_flag("--listen", Listener, {"address": listen}),)
    if upstream == "broker":
        changes["upstream"] = upstream
    elif upstream:
        tls = config.upstream.tls if isinstance(config.upstream, Upstream) else None
        flags = {"address": upstream, "tls": msgspec.to_builtins(tls)}
        changes["upstream"] = _from_flag("--upstream", Upstream, flags)
    if metrics:
        changes["metrics"] = _from_flag("--metrics", Metrics, {"address": metrics})
    if log_format or log_level:
        log = {"format": log_format or config.log.format, "level": log_level or config.log.level}
        changes["log"] = msgspec.convert(log, type(config.log))
    try:
        return msgspec.structs.replace(config, **changes)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _merged_broker(
    broker: Broker, listen: str | None, data: Path | None, definitions: Path | None, tls: dict[str, str]
) -> Broker:
    """The same for the broker; `tls` is for the one listener that --listen names, or would."""
    changes: dict[str, object] = {}
    if tls and not {"certificate", "key"} <= tls.keys():
        raise ConfigError("TLS needs both --tls-cert and --tls-key")
    if listen or tls:
        address = listen or (broker.listen[0].address if broker.listen else "127.0.0.1:5672")
        changes["listen"] = (_from_flag("--listen", Listener, {"address": address, "tls": tls or None}),)
    if data:
        changes["data"] = str(data)
    if definitions:
        changes["definitions"] = str(definitions)
    return msgspec.structs.replace(broker, **changes)


def _from_flag(flag: str, kind: type[msgspec.Struct], values: dict[str, object]) -> msgspec.Struct:
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{flag} {values['address']}: {explained(error).removeprefix('address: ')}") from None


def _filter(expression: str | None) -> Filter | None:
    if expression is None:
        return None
    from amqproxy.rules.filters import compiled

    try:
        return compiled(expression)
    except ValueError as error:
        raise Failure(f"--filter: {error}", MISUSED) from None


@contextmanager
def _counterpart(path: Path | None, config: Path | None) -> Iterator[Counterpart]:
    """A connection to the control socket that is named; what the proxy has against a request is told."""
    from amqproxy.control.counterpart import Counterpart
    from amqproxy.control.request import Wrong

    if (path is None) == (config is None):
        raise Failure("control: name the proxy's --socket, or the --config that names it", MISUSED)
    if config is not None:
        named = load(config).control
        if named is None:
            raise Failure(f"{config} has no [control]: its proxy has no control socket", MISUSED)
        path = Path(named.path)
    assert path is not None
    try:
        with Counterpart(path) as asked:
            yield asked
    except Wrong as wrong:
        raise Failure(str(wrong)) from None


def _print_entries(
    entries: Iterable[dict[str, Any]], lines: Callable[[dict[str, Any]], Iterable[str]], json: bool
) -> None:
    for entry in entries:
        for line in [msgspec.json.encode(entry).decode()] if json else lines(entry):
            print(line)
    sys.stdout.flush()


def _assigned(option: str, assignments: Iterable[str]) -> Any:
    """The values of NAME=VALUE: JSON where they are, else text."""
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
    """A body as the control socket takes it."""
    if file is None:
        return text
    if text is not None:
        raise Failure("control release: there is one body: say --body or --body-file", MISUSED)
    try:
        return {"base64": base64.b64encode(file.read_bytes()).decode()}
    except OSError as error:
        raise Failure(f"{file}: cannot be read: {error.strerror}") from None


def _renderer(json: bool) -> Callable[[Record], str]:
    if json:
        return lambda record: record.to_json().decode()
    from amqproxy.taps import text

    return text.line


def main() -> None:
    """Run the command that the arguments name, and exit as the docstring of this module says."""
    if sys.stdout is None:  # closed by whoever started us
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
    sys.exit(_exit_code())


def _exit_code() -> int:
    try:
        app(sys.argv[1:])
        sys.stdout.flush()
    except cyclopts.CycloptsError:
        return MISUSED
    except Failure as failure:
        print(f"amqproxy: {failure}", file=sys.stderr)
        return failure.code
    except ConfigError as error:
        print(f"amqproxy: {error}", file=sys.stderr)
        return MISUSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _forget_output()
        return UNHEARD
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT):
            raise
        _forget_output()
        print(f"amqproxy: the output cannot be written: {error.strerror}", file=sys.stderr)
        return FAILED
    return 0


def _forget_output() -> None:
    """Drop what is left of the output, so that Python does not trip over it once more at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
