from amqproxy.comparison.traced_command import TracedCommand


def with_headers(headers: dict[str, object]) -> TracedCommand:
    fields = {"properties": {"headers": headers}}
    return TracedCommand(type="deliver", ts_ns=0, method="basic.deliver", fields=fields, size=1, digest=b"x")


def test_the_order_of_a_table_makes_no_difference() -> None:
    """RabbitMQ 4.3 delivers headers in the order of their names, 3.10 as they were published."""
    published = with_headers({"b": 1, "a": [{"y": 1, "x": 2}]})
    sorted_ = with_headers({"a": [{"x": 2, "y": 1}], "b": 1})
    assert published.digests() == sorted_.digests()


def test_the_order_of_an_array_makes_one() -> None:
    assert with_headers({"a": [1, 2]}).digests() != with_headers({"a": [2, 1]}).digests()
