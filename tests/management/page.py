"""The tables of docs/management.md, made from the table of routes; as a program, write them into the page."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from amqproxy.management.access import Access
from amqproxy.management.differences import ABSENT_KEYS, OWN_VALUES, RABBITMQ_PATHS
from amqproxy.management.route import Route
from amqproxy.management.routes import ROUTES

PAGE = Path(__file__).parents[2] / "docs/management.md"

WHO = {
    Access.ANYONE: "anyone, without a login",
    Access.FORM: "anyone, with the login in a form",
    Access.MANAGEMENT: "every tag",
    Access.VHOST: "permissions in the virtual host, or administrator",
    Access.VHOST_OR_MONITOR: "permissions in the virtual host, or monitoring",
    Access.VHOST_POLICYMAKER: "policymaker with permissions in the virtual host, or administrator",
    Access.POLICYMAKER: "policymaker",
    Access.SELF_OR_MONITOR: "the user itself, or monitoring",
    Access.SELF_OR_ADMINISTRATOR: "the user itself, or administrator",
    Access.MONITOR: "monitoring",
    Access.METRICS: "monitoring, or anyone with `metrics_without_login`",
    Access.ADMINISTRATOR: "administrator",
}


def paths() -> Iterator[str]:
    """The rows of the paths that are served."""
    yield "| path | methods | who | versions |"
    yield "| --- | --- | --- | --- |"
    for route in ROUTES:
        yield f"| `{route.full_path}` | {' '.join(route.methods)} | {_who(route)} | {_versions(route)} |"


def _who(route: Route) -> str:
    who = WHO[route.access]
    return who if route.writes is None or route.writes is route.access else f"{who}; to change: {WHO[route.writes]}"


def _versions(route: Route) -> str:
    if route.since > (0, 0):
        return f"{route.since[0]}.{route.since[1]} on"
    return "3.10" if route.until < (99, 0) else "all"


def absent() -> Iterator[str]:
    """The rows of RabbitMQ's paths and methods that are absent."""
    served: dict[str, set[str]] = {}
    for route in ROUTES:
        served.setdefault(route.path, set()).update(route.methods)
    yield "| path | methods |"
    yield "| --- | --- |"
    for path, methods in RABBITMQ_PATHS.items():
        left = [each for each in methods.split() if each not in served.get(path, ())]
        if left:
            yield f"| `/api/{path}` | {' '.join(left)} |"


def keys() -> Iterator[str]:
    """The rows of keys that are absent, or have values of their own."""
    yield "| key | |"
    yield "| --- | --- |"
    for reason, names in groupby(sorted(ABSENT_KEYS, key=lambda name: (ABSENT_KEYS[name], name)), ABSENT_KEYS.get):
        yield f"| {', '.join(f'`{name}`' for name in names)} | absent: {reason} |"
    for name, value in OWN_VALUES.items():
        yield f"| `{name}` | {value} |"


TABLES = {"paths": paths, "absent": absent, "keys": keys}


def written(page: str) -> str:
    """The page with its tables, each between two comments."""
    for name, rows in TABLES.items():
        table = "\n".join(rows())
        before, _, rest = page.partition(f"<!-- {name} -->\n")
        _, _, after = rest.partition("<!-- end -->")
        page = f"{before}<!-- {name} -->\n\n{table}\n\n<!-- end -->{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
