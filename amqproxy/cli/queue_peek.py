"""`amqproxy queue peek`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amqproxy.cli.queue_options import Chosen, Reached
from amqproxy.cli.queue_runs import RunDisplay, check, plan_of, run
from amqproxy.cli.queue_text import message_lines

if TYPE_CHECKING:
    from amqproxy.bodies.body_views import Form
    from amqproxy.workbench.audit import Audit
    from amqproxy.workbench.held_message import HeldMessage
    from amqproxy.workbench.run_report import RunReport
    from amqproxy.workbench.runs import Bench, Told


def show_messages(
    broker: str,
    queue: str,
    reached: Reached,
    chosen: Chosen,
    position: int,
    offset: str,
    form: Form,
    *,
    is_json: bool,
) -> None:
    """Print messages of a queue or a stream."""
    from amqproxy.bodies.addon_bodies import AddonBodies
    from amqproxy.workbench.message_line import line_of
    from amqproxy.workbench.peek import peek

    plan = plan_of("peek", chosen, None, position=position)
    display, bodies = RunDisplay(), AddonBodies()

    def show(message: HeldMessage) -> None:
        properties = message.properties
        view = bodies.view(
            message.body,
            form,
            content_type=properties.content_type or "",
            content_encoding=properties.content_encoding or "",
        )
        display.clear()
        if is_json:
            decoded: dict[str, Any] | None = None
            if view is not None and view.form not in ("text", "hex"):
                decoded = {"form": view.form, "text": view.text}
            print(line_of(message, queue, decoded).to_json().decode(), flush=True)
        else:
            shown = None if view is None else (view.form, view.text)
            print("\n".join(message_lines(line_of(message, queue), shown)), flush=True)

    async def work(bench: Bench, told: Told, audit: Audit | None, report: RunReport) -> None:
        await peek(bench, plan, told, report, show, int(offset) if offset.isdigit() else offset)

    try:
        report = run(broker, queue, reached, plan, {}, work, display)
    finally:
        bodies.close()
    if report.rescued:
        display.warn(
            f"{report.rescued} messages at the delivery limit are now at the end of the queue with a new count"
        )
    if report.is_window_full:
        display.warn(f"the window is full: {report.not_looked_at} messages behind it were not looked at (--window)")
    check(plan, report)
