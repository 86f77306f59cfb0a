"""Limits on the connection parameters in connection.tune."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec.structs import replace

from amqproxy.amqp091.errors import NotAllowed, Scope
from amqproxy.amqp091.methods import ConnectionTune, ConnectionTuneOk
from amqproxy.rules.units import duration, size
from amqproxy.rules.verdict import Close


class Tuning(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Upper limits of a connection; `heartbeat` is in seconds. The broker's value applies if it is smaller.

    `least_frame_max` is what the broker is answered if the client takes smaller frames, into which the proxy cuts the
    bodies of the broker's messages.
    """

    channel_max: Annotated[int, msgspec.Meta(ge=1, le=65_535)] | None = None
    frame_max: Annotated[int, size(ge=4096, le=2**32 - 1)] | None = None
    least_frame_max: Annotated[int, size(ge=4096, le=2**32 - 1)] | None = None
    heartbeat: Annotated[int, duration(ge=1, le=65_535)] | None = None

    def offered(self, tune: ConnectionTune) -> ConnectionTune:
        """Return the tune sent to the client; 0 is unlimited, and so larger than any number."""
        return replace(
            tune,
            channel_max=_smaller(tune.channel_max, self.channel_max),
            frame_max=_smaller(tune.frame_max, self.frame_max),
            heartbeat=_smaller(tune.heartbeat, self.heartbeat),
        )

    def answered(self, answer: ConnectionTuneOk) -> ConnectionTuneOk:
        """Return the tune-ok sent to the broker: its heartbeat is at most this, even if the client insists on a longer
        one, and its frame_max at least that.

        Then each leg has its own heartbeat, and the proxy sends the broker's, or its own frame_max, and the proxy cuts
        the client's frames.
        """
        heartbeat, frame_max = _smaller(answer.heartbeat, self.heartbeat), answer.frame_max
        if self.least_frame_max is not None and 0 < frame_max < self.least_frame_max:
            frame_max = self.least_frame_max
        if (heartbeat, frame_max) == (answer.heartbeat, answer.frame_max):
            return answer
        return replace(answer, heartbeat=heartbeat, frame_max=frame_max)

    def objection(self, answer: ConnectionTuneOk) -> Close | None:
        """Return RabbitMQ's error for a client that exceeds the offered limits.

        Sending the broker less than the client uses would only make the broker close it later.
        """
        for field, most, value in (
            ("channel_max", self.channel_max, answer.channel_max),
            ("frame_max", self.frame_max, answer.frame_max),
        ):
            if most is not None and (value == 0 or value > most):
                text = f"negotiated {field} = {value or 'no limit'} is higher than the maximum allowed value ({most})"
                return Close(Scope.CONNECTION, NotAllowed.code, NotAllowed(text).reply_text)
        return None


def _smaller(offered: int, most: int | None) -> int:
    if most is None:
        return offered
    return min(offered, most) if offered else most
