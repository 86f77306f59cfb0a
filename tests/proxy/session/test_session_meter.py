"""A meter that fails is no trouble to what it counts."""

from structlog.testing import capture_logs

from amqproxy.proxy.session.session_meter import SessionMeter
from amqproxy.taps.metering.amqp091.message_meter import MessageMeter
from amqproxy.taps.metering.message_counts import MessageCounts
from tests.transcripts.words import octets

PUBLISH = octets("1: basic.publish, 1: header 1, 1: body 1")


def test_it_counts_until_the_meter_fails() -> None:
    meter = MessageMeter(MessageCounts())
    metered = SessionMeter(meter, 7, "10.0.0.1:40000-10.0.0.2:5672")
    metered.feed(False, PUBLISH, 1.0)
    assert meter.frames == 3

    class Broken:
        def feed(self, *arguments: object) -> None:
            raise ZeroDivisionError

        close = meter.close

    metered.meter = Broken()  # type: ignore[assignment]
    with capture_logs() as logs:
        metered.feed(False, PUBLISH, 2.0)
        metered.feed(False, PUBLISH, 3.0)
        metered.close()
    assert metered.meter is None
    [line] = [each for each in logs if each["log_level"] == "error"]
    assert line["event"] == "messages not counted"
    assert (line["session"], line["client"]) == (7, "10.0.0.1:40000")
