"""Commands without tags and made-up names."""

from amqproxy.amqp091.methods import BasicAck, BasicConsume, BasicDeliver, ChannelClose, QueueBind
from amqproxy.comparison.made_up_names import MAX_NAMES, BrokerNames, ConsumerNames
from amqproxy.comparison.normalising import normalised, normalised_properties, without_numbers

MADE_UP = "amq.gen-DZ1x_9-qABC"


def test_made_up_names_are_numbered() -> None:
    names = BrokerNames()
    names.learn_queue("amq.gen-first", 1)
    names.learn_queue(MADE_UP, 1)
    names.learn_queue(MADE_UP, 1)
    assert names.text(MADE_UP) == "<queue:1.2>"
    assert (
        names.text(f"NOT_FOUND - no queue '{MADE_UP}' in vhost '/'")
        == "NOT_FOUND - no queue '<queue:1.2>' in vhost '/'"
    )
    assert names.text("amq.gen-of-another") == "<queue>"
    assert names.text("amq.rabbitmq.reply-to.g1h2AA/x.y==") == "<reply-to>"
    for kept in ("amq.rabbitmq.reply-to", "amq.direct", "orders", ""):
        assert names.text(kept) == kept
    names.learn_queue("orders.made-up-in-another-way", 1)
    assert names.value({"queue": ["orders.made-up-in-another-way", 1, {"x": MADE_UP}]}) == {
        "queue": ["<queue:1.3>", 1, {"x": "<queue:1.2>"}]
    }


def test_the_order_between_channels_does_not_matter() -> None:
    first, second = BrokerNames(), BrokerNames()
    for name, channel in (("amq.gen-a", 1), ("amq.gen-b", 2), ("amq.gen-c", 1)):
        first.learn_queue(name, channel)
    for name, channel in (("amq.gen-b", 2), ("amq.gen-a", 1), ("amq.gen-c", 1)):
        second.learn_queue(name, channel)
    names = ["amq.gen-a", "amq.gen-b", "amq.gen-c"]
    assert first.value(names) == second.value(names) == ["<queue:1.1>", "<queue:2.1>", "<queue:1.2>"]


def test_numbers_of_the_run_in_reply_texts() -> None:
    assert without_numbers("unknown delivery tag 17") == without_numbers("unknown delivery tag 3")
    assert without_numbers("held by <0.1234.0>") == without_numbers("held by <12.7.0>")
    assert without_numbers("max-length 17") == "max-length 17"


def test_consumers_are_numbered_whichever_side_chose_their_tags() -> None:
    consumers = ConsumerNames()
    assert [consumers.begin(tag) for tag in ("mine", "amq.ctag-a", "mine")] == [
        "<consumer:1>",
        "<consumer:2>",
        "<consumer:3>",
    ]
    assert (consumers.find("mine"), consumers.find("other")) == ("<consumer:3>", "<consumer>")


def test_no_more_names_are_remembered_than_the_limit() -> None:
    names, consumers = BrokerNames(), ConsumerNames()
    for number in range(MAX_NAMES + 1):
        names.learn_queue(f"amq.gen-{number}", 1)
        consumers.begin(f"{number}")
    assert names.text(f"amq.gen-{MAX_NAMES}") == "<queue>"
    assert consumers.find(f"{MAX_NAMES}") == "<consumer>"


def test_methods() -> None:
    names, consumers = BrokerNames(), ConsumerNames()
    names.learn_queue(MADE_UP, 1)
    consumers.begin("t")
    assert normalised(BasicAck(7, True), names, consumers) == {"multiple": True}
    assert normalised(QueueBind(queue=MADE_UP, exchange="x"), names, consumers)["queue"] == "<queue:1.1>"
    assert normalised(BasicConsume(consumer_tag="t"), names, consumers)["consumer_tag"] == "<consumer:1>"
    assert normalised(BasicDeliver("t", 3, False, "x", "k"), names, consumers) == {
        "redelivered": False,
        "exchange": "x",
        "routing_key": "k",
    }
    closed = normalised(ChannelClose(404, f"no queue '{MADE_UP}'", 50, 20), names, consumers)
    assert closed["reply_text"] == "no queue '<queue:1.1>'"


def test_properties() -> None:
    names = BrokerNames()
    names.learn_queue(MADE_UP, 1)
    given = {"reply_to": MADE_UP, "timestamp": 5, "headers": {"x-death": [{"time": 1, "queue": MADE_UP, "count": 2}]}}
    assert normalised_properties(given, names) == {
        "reply_to": "<queue:1.1>",
        "timestamp": 5,
        "headers": {"x-death": [{"queue": "<queue:1.1>", "count": 2}]},
    }
    assert given["headers"]["x-death"][0]["time"] == 1  # type: ignore[index]
