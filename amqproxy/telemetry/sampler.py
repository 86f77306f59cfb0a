"""Choice of the messages that get a span: the decision is per trace, so that publish and delivery share it."""

from __future__ import annotations

from collections.abc import Callable

from amqproxy.telemetry.trace_context import TraceContext


class Sampler:
    """Sampler of the share `ratio` of the traces.

    For a message with a trace context, its trace id decides, as in OpenTelemetry's TraceIdRatioBased, and only if its
    publisher has sampled it. For any other message, chance decides: `random` returns numbers in [0, 1).
    """

    __slots__ = ("_bound", "_random", "_ratio")

    def __init__(self, ratio: float, random: Callable[[], float]) -> None:
        self._ratio = ratio
        self._bound = round(ratio * 2**64)
        self._random = random

    def takes(self, context: TraceContext | None) -> bool:
        """Return whether the message with this trace context gets a span."""
        if context is None:
            return self._random() < self._ratio
        return context.is_sampled and int(context.trace_id[16:], 16) < self._bound
