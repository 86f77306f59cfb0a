"""The help of the commands: paragraphs as wide as the terminal, examples, and the pages that say more."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cyclopts
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

SITE = "https://amqproxy.github.io/amqproxy/"
"""Address of the documentation. mkdocs.yml, alerts, chart and package metadata have it too; a test compares them."""

EXIT_CODES = (
    "Exit codes: 0 success, 1 failure, 2 wrong usage or config, 130 ended by a second signal, "
    "141 the reader of the output closed it."
)

EXAMPLES = {
    "": (
        "run --listen 127.0.0.1:5673 --upstream 127.0.0.1:5672 --dashboard",
        "decode --messages a.pcapng",
        "tail --config amqproxy.toml --messages",
    ),
    "broker": (
        "broker --listen 127.0.0.1:5672",
        "broker --data /var/lib/amqproxy --definitions definitions.json",
        "broker --management 127.0.0.1:15672",
    ),
    "broker export": ("broker export --data /var/lib/amqproxy > definitions.json",),
    "compare": (
        "compare before.pcapng after.pcapng",
        "compare amqp://a:5672 amqp://b:5672 --replay a.pcapng",
    ),
    "completion": ("completion bash > /etc/bash_completion.d/amqproxy",),
    "config": ("config check amqproxy.toml", "config show amqproxy.toml", "config schema > schema.json"),
    "config check": ("config check amqproxy.toml",),
    "config schema": ("config schema > schema.json",),
    "config show": ("config show", "config show amqproxy.toml"),
    "control": (
        "control connections --config amqproxy.toml",
        "control channels --socket /run/amqproxy/control.sock --json",
        "control close 17 --text 'maintenance' --config amqproxy.toml",
    ),
    "control channels": ("control channels --session 17 --config amqproxy.toml",),
    "control close": (
        "control close 17 --text 'maintenance' --config amqproxy.toml",
        "control close 17 --channel 1 --config amqproxy.toml",
    ),
    "control connections": ("control connections --config amqproxy.toml --json",),
    "control consumers": ("control consumers --session 17 --config amqproxy.toml",),
    "control held": ("control held --watch --config amqproxy.toml",),
    "control pause": ("control pause 17 --channel 1 --config amqproxy.toml",),
    "control release": (
        "control release 17 3 --config amqproxy.toml",
        "control release 17 3 --set routing_key=checked --config amqproxy.toml",
        "control release 17 3 --refuse --with nack --config amqproxy.toml",
    ),
    "control reload": ("control reload --config amqproxy.toml",),
    "control resume": ("control resume 17 --channel 1 --config amqproxy.toml",),
    "control rules": ("control rules --config amqproxy.toml",),
    "control rules-check": ("control rules-check new.toml --config amqproxy.toml",),
    "control rules-end": ("control rules-end 'hold orders' --config amqproxy.toml",),
    "control rules-enforce": ("control rules-enforce 'eu only' --config amqproxy.toml",),
    "control rules-get": ("control rules-get --config amqproxy.toml > rules.toml",),
    "control rules-remove": ("control rules-remove 'eu only' --config amqproxy.toml",),
    "control rules-set": ("control rules-set new.toml --config amqproxy.toml",),
    "control rules-shadow": ("control rules-shadow 'eu only' --config amqproxy.toml",),
    "control sessions": ("control sessions --config amqproxy.toml",),
    "control stats": ("control stats --config amqproxy.toml --json",),
    "control topology": ("control topology --vhost / --deleted --config amqproxy.toml",),
    "control switches": ("control switches --config amqproxy.toml",),
    "control switches-back": ("control switches-back blue-green --config amqproxy.toml",),
    "control switches-begin": (
        "control switches-begin blue green --definitions blue.json",
        "control switches-begin blue green --strict --queue orders",
    ),
    "control switches-compare": ("control switches-compare blue-green --config amqproxy.toml",),
    "control switches-forget": ("control switches-forget blue-green --config amqproxy.toml",),
    "control switches-forth": ("control switches-forth blue-green --config amqproxy.toml",),
    "control switches-queues": ("control switches-queues blue-green --config amqproxy.toml",),
    "control switches-settle": ("control switches-settle blue-green --config amqproxy.toml",),
    "control pools": ("control pools --config amqproxy.toml",),
    "control upstreams": ("control upstreams --config amqproxy.toml",),
    "control upstreams-drain": ("control upstreams-drain mq-1:5672 --rate 50 --config amqproxy.toml",),
    "control upstreams-eject": ("control upstreams-eject mq-1:5672 --seconds 60 --config amqproxy.toml",),
    "control upstreams-rebalance": ("control upstreams-rebalance rabbit --rate 50 --config amqproxy.toml",),
    "control upstreams-restore": ("control upstreams-restore mq-1:5672 --config amqproxy.toml",),
    "control upstreams-weight": ("control upstreams-weight mq-1:5672 2 --config amqproxy.toml",),
    "control transactions": ("control transactions --config amqproxy.toml",),
    "dashboard": ("dashboard --capture a.pcapng", "dashboard --connect /run/amqproxy/control.sock"),
    "decode": (
        "decode a.pcapng",
        "decode --messages --filter 'exchange == \"orders\"' a.pcapng",
        "decode --findings --fail-on warning captures/",
        "decode --fields time,method,arguments.exchange --header a.pcapng",
    ),
    "export": (
        "export a.pcapng --to frames.parquet",
        "export a.pcapng --to orders.pcapng --filter 'exchange == \"orders\"'",
    ),
    "extcap": ("extcap --install",),
    "hash-password": ("hash-password",),
    "man": ("man > ~/.local/share/man/man1/amqproxy.1",),
    "mock": ("mock a.pcapng --listen 127.0.0.1:5672",),
    "pipeline": ("pipeline run captures/ --tables tables", "pipeline ask slower-consumers --tables tables"),
    "pipeline anomalies": ("pipeline anomalies --tables tables --zone Europe/Berlin",),
    "pipeline ask": (
        "pipeline ask",
        "pipeline ask slower-consumers --tables tables --last 4w",
        "pipeline ask changes --start 2026-11-20 --last 1d --before 2026-11-13",
    ),
    "pipeline compact": ("pipeline compact --tables tables",),
    "pipeline findings": ("pipeline findings --tables tables",),
    "pipeline ingest": ("pipeline ingest captures/ --tables tables --frames",),
    "pipeline link": ("pipeline link --tables tables",),
    "pipeline report": ("pipeline report --tables tables --to report.html",),
    "pipeline rollup": ("pipeline rollup --tables tables",),
    "pipeline run": (
        "pipeline run captures/ --tables tables",
        "pipeline run --live /var/lib/amqproxy --tables tables",
    ),
    "pipeline settle": ("pipeline settle --tables tables --age 0",),
    "queue": (
        "queue peek amqp://mq-1/shop orders.dead --api",
        "queue requeue amqp://mq-1/shop orders.dead --api --dry-run",
        "queue drain amqp://mq-1/shop orders.dead dead.jsonl",
    ),
    "queue drain": (
        "queue drain amqp://mq-1/shop orders.dead dead.jsonl",
        "queue drain amqp://mq-1/shop q a.pcapng --where 'size < 9' --api",
    ),
    "queue edit": (
        "queue edit amqp://mq-1/shop q --set type=order --requeue --api",
        "queue edit amqp://mq-1/shop q --editor --limit 1 --api",
    ),
    "queue fill": ("queue fill amqp://mq-1/shop orders dead.jsonl",),
    "queue move": (
        "queue move amqp://mq-1/shop parked q --where 'size < 9' --api",
        "queue move amqp://mq-1/shop orders orders --to amqp://mq-2/shop",
        "queue move amqp://mq-1/shop q --exchange orders --routing-key new",
    ),
    "queue peek": (
        "queue peek amqp://mq-1/shop q --type classic --limit 3",
        "queue peek amqp://mq-1/shop events --offset 1h --json",
    ),
    "queue requeue": (
        "queue requeue amqp://mq-1/shop orders.dead --api --dry-run",
        "queue requeue amqp://mq-1/shop q --api --by queue --limit 100",
    ),
    "readiness": (
        "readiness --target 4.3 captures/ --config rabbitmq.conf",
        "readiness a.pcapng --write-rules bridge.toml",
        "readiness --tables tables --last 4w",
    ),
    "record": ("record start --config amqproxy.toml", "record stop --config amqproxy.toml"),
    "record start": (
        "record start --config amqproxy.toml",
        "record start captures/ --filter 'exchange == \"orders\"' --file-age 10m",
    ),
    "record status": ("record status --config amqproxy.toml --json",),
    "record stop": ("record stop --config amqproxy.toml",),
    "replay": ("replay a.pcapng --to amqp://guest:guest@127.0.0.1:5672",),
    "rules": (
        "rules check amqproxy.toml",
        "rules explain amqproxy.toml --method queue.delete --queue orders",
        "rules test amqproxy.toml --capture a.pcapng",
    ),
    "rules check": ("rules check amqproxy.toml --strict",),
    "rules explain": (
        "rules explain amqproxy.toml",
        "rules explain amqproxy.toml --method queue.delete --queue orders",
    ),
    "rules suggest": ("rules suggest captures/ > access.toml", "rules suggest --tables tables"),
    "rules test": ("rules test amqproxy.toml --capture a.pcapng",),
    "run": (
        "run --listen 127.0.0.1:5673 --upstream 127.0.0.1:5672 --messages",
        "run --upstream broker --dashboard",
        "run --config amqproxy.toml",
    ),
    "shrink": ("shrink a.pcapng --until 'method == \"channel.close\"' -o small.pcapng",),
    "sniff": ("sniff --interface lo --messages", "sniff --interface eth0 --port 5672 --findings"),
    "tail": (
        "tail --config amqproxy.toml --messages",
        "tail --config amqproxy.toml --filter 'user == \"alice\"'",
        "tail --config amqproxy.toml --life m-17",
        "tail --socket /run/amqproxy/control.sock --findings --json",
    ),
    "top": ("top --config amqproxy.toml", "top --socket /run/amqproxy/control.sock --interval 5"),
    "verify": ("verify a.pcapng",),
    "version": ("version",),
}
"""Example arguments by command."""

PAGES = {
    "compare": ("captures",),
    "completion": ("install",),
    "config": ("configuration", "rules"),
    "control": ("control",),
    "dashboard": ("dashboard",),
    "decode": ("captures", "messages", "findings", "rules"),
    "export": ("captures", "messages", "rules"),
    "extcap": ("howto/wireshark",),
    "hash-password": ("configuration",),
    "man": ("install",),
    "mock": ("captures",),
    "pipeline": ("pipeline", "findings"),
    "queue": ("howto/bring-dead-letters-back", "rules"),
    "readiness": ("upgrade", "findings", "rules"),
    "record": ("captures", "rules"),
    "replay": ("captures", "rules"),
    "rules": ("rules",),
    "run": ("tutorial", "configuration", "rules", "messages", "findings", "captures", "dashboard"),
    "broker": ("broker", "management", "messages", "findings", "captures", "dashboard"),
    "shrink": ("captures",),
    "sniff": ("captures", "messages", "findings", "rules"),
    "tail": ("control", "messages", "findings", "rules"),
    "top": ("control",),
    "verify": ("captures",),
    "version": ("install",),
}
"""Pages of the documentation by command."""


def add_epilogues(app: cyclopts.App) -> None:
    """Append examples, URLs and exit codes to the help of each command."""
    for command, examples in EXAMPLES.items():
        described = app
        for name in command.split():
            described = described[name]
        parts = ["Examples:\n" + "\n".join(f"  amqproxy {each}" for each in examples)]
        pages = PAGES.get(command.partition(" ")[0], ("tutorial", "faq"))
        parts.append("Documentation:\n" + "\n".join(f"  {SITE}{page}/" for page in pages))
        described.help_epilogue = "\n\n".join([*parts, EXIT_CODES])


def command_reference(app: cyclopts.App) -> str:
    """Return all commands, arguments and options as Markdown, with the defaults that `--help` shows."""
    text = app.generate_docs(output_format="markdown", recursive=True)
    text = text.replace(" -m amqproxy", "")  # in the usage of `python -m amqproxy`
    return re.sub(r" \*\[default: (?:False|None|\(\)|\[\])\]\*", "", text)


def shown_default(value: Any) -> str | None:
    """Return the text of a default; `None` for values that only mean that the option was not given."""
    if value is None or value is False or value in ([], ()):
        return None
    return "yes" if value is True else str(value)


class HelpFormatter:
    """Formats help like cyclopts, with the line breaks of docstrings replaced by those of the terminal."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        from cyclopts.help import DefaultFormatter

        for entry in panel.entries:
            _unwrap(entry.description)
        DefaultFormatter()(console, options, panel)

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        """Print the line of usage."""
        from cyclopts.help import DefaultFormatter

        DefaultFormatter().render_usage(console, options, usage)

    def render_description(self, console: Console, options: ConsoleOptions, description: Any) -> None:
        """Print the description of the command."""
        _unwrap(description)
        if description:
            console.print(description)


def _unwrap(described: Any) -> None:
    """Join the lines of each paragraph."""
    text = getattr(described, "primary_renderable", None)
    if text is not None:
        text.plain = re.sub(r"(?<!\n)\n(?!\n)[ ]*", " ", text.plain.rstrip())
