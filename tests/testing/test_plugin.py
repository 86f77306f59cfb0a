"""The fixtures, as a user of pytest has them. What the tests in here import is loaded once, and not by each run."""

import sys
from pathlib import Path

import aio_pika
import pika
import pytest

import amqproxy.testing.local_broker
import amqproxy.testing.local_proxy
from amqproxy.amqp091.frame import METHOD
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decode import read_decoded
from amqproxy.rules.matching.filters import compiled
from amqproxy.testing import LocalBroker
from tests.real.rabbitmq import RabbitMQ

pytest_plugins = ["pytester"]

assert aio_pika, pika
assert amqproxy.testing.local_broker, amqproxy.testing.local_proxy
compiled("true")  # imports the library for expressions, which can be imported only once

PUBLISHER = """
    import pika
    import pytest

    def published(url, *keys, confirmed=True):
        with pika.BlockingConnection(pika.URLParameters(url)) as connection:
            channel = connection.channel()
            if confirmed:
                channel.confirm_delivery()
            channel.queue_declare("orders")
            for key in keys:
                channel.basic_publish("", key, b"an order")
"""


def passed(pytester: pytest.Pytester, code: str, *options: str, count: int = 1) -> None:
    pytester.makepyfile(code)
    pytester.runpytest(*options).assert_outcomes(passed=count)


def test_a_sync_test_with_pika(pytester: pytest.Pytester) -> None:
    passed(
        pytester,
        f"""{PUBLISHER}
    def test_orders(amqp_broker, amqp_proxy):
        assert amqp_proxy.upstream == amqp_broker.address
        published(amqp_proxy.url, "orders", "orders")
        found = amqp_proxy.wait_for("routing_key == 'orders' && body == 'an order'", count=2)
        assert [each.outcome for each in found] == ["confirmed", "confirmed"]
        amqp_proxy.assert_all_confirmed()
        amqp_proxy.assert_all_acked()
        amqp_proxy.assert_no_findings("warning")
    """,
    )


def test_an_asyncio_test_with_aio_pika(pytester: pytest.Pytester) -> None:
    passed(
        pytester,
        """
    import asyncio
    import aio_pika

    def test_orders(amqp_proxy):
        async def main():
            connection = await aio_pika.connect(amqp_proxy.url)
            async with connection:
                channel = await connection.channel()
                await channel.set_qos(10)
                queue = await channel.declare_queue("orders")
                await channel.default_exchange.publish(aio_pika.Message(b"an order"), "orders")
                message = await queue.get()
                waiting = asyncio.create_task(amqp_proxy.wait_for_async(type="get", outcome="acked"))
                await message.ack()
                await waiting
                amqp_proxy.assert_all_acked()
                amqp_proxy.assert_all_confirmed()

        asyncio.run(main())
    """,
    )


def test_a_trio_test_with_raw_frames(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ntrio_mode = true")
    passed(
        pytester,
        """
    import struct
    import trio

    async def test_the_first_frame(amqp_proxy):
        async with await trio.open_tcp_stream(amqp_proxy.host, amqp_proxy.port) as stream:
            await stream.send_all(b"AMQP\\0\\0\\x09\\1")
            kind, channel, size = struct.unpack(">BHI", (await stream.receive_some(65536))[:7])
            assert (kind, channel) == (1, 0)
            await stream.send_all(b"\\1\\0\\0\\0\\0\\0\\4\\0\\x14\\0\\x0b\\xce")
            await stream.receive_some(65536)
        found = await amqp_proxy.wait_for_async(timeout=5)
        assert found
        assert len(amqp_proxy.messages) >= len(found)
    """,
    )


def test_a_failed_test_shows_what_passed_last(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(f"""{PUBLISHER}
    def test_orders(amqp_proxy):
        published(amqp_proxy.url, "orders")
        assert False

    def test_silence(amqp_proxy):
        assert False
    """)
    result = pytester.runpytest()
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "*AMQP through amqp_proxy*",
            "connection #1, 127.0.0.1:* → 127.0.0.1:*",
            "  last messages*",
            "*publish  tag=1 routing_key=orders 8 bytes *⇒ confirmed, *",
            "  last frames*",
            "*basic.publish  routing_key=orders*",
            "*AMQP through amqp_proxy*",
            "no connection has come to the proxy",
        ]
    )


def test_a_proxy_of_another_fixture_is_shown_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
    import pytest
    from amqproxy.testing import LocalProxy

    @pytest.fixture
    def ended(amqp_broker):
        with LocalProxy(amqp_broker.address) as proxy:
            pass
        return proxy

    @pytest.fixture
    def alias(ended):
        return ended

    def test_orders(ended, alias):
        assert False
    """)
    output = pytester.runpytest().stdout
    output.fnmatch_lines(["*AMQP through ended*", "no connection has come to the proxy"])
    output.no_fnmatch_line("*AMQP through alias*")


def test_what_a_failure_has_itself_is_shown_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(f"""{PUBLISHER}
    def test_orders(amqp_proxy):
        published(amqp_proxy.url, "orders")
        amqp_proxy.wait_for("exchange == 'x'", timeout=0.01)

    def test_silence(amqp_proxy):
        amqp_proxy.wait_for("exchange == 'x'", timeout=0.01)
    """)
    output = pytester.runpytest().stdout
    output.fnmatch_lines(["E *last frames*", "E *no connection has come to the proxy"])
    output.no_fnmatch_line("*AMQP through*")


def test_a_wrong_expression_is_shown_without_what_compiles_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
    def test_where(amqp_proxy):
        amqp_proxy.messages.where("exchnge == 'x'")

    def test_wait(amqp_proxy):
        amqp_proxy.wait_for("exchnge == 'x'")
    """)
    output = pytester.runpytest().stdout
    output.fnmatch_lines(["E *there is no `exchnge`: did you mean `exchange`*"])
    output.no_fnmatch_line("*expressions.py*")
    output.no_fnmatch_line("*record_filter.py*")


def test_the_only_message_or_a_failure_that_shows_what_was_recorded(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(f"""{PUBLISHER}
    def test_one(amqp_proxy):
        published(amqp_proxy.url, "orders")
        assert amqp_proxy.messages.one("routing_key == 'orders'").outcome == "confirmed"

    def test_none(amqp_proxy):
        published(amqp_proxy.url, "orders")
        amqp_proxy.messages.one("routing_key == 'invoices'", outcome="acked")

    def test_several(amqp_proxy):
        published(amqp_proxy.url, "orders", "orders")
        amqp_proxy.messages.one("routing_key == 'orders'")

    def test_silence(amqp_proxy):
        amqp_proxy.messages.one()
    """)
    result = pytester.runpytest()
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(
        [
            "E *AssertionError: 0 messages instead of one: routing_key == 'invoices', outcome='acked'",
            "E * publish * routing_key=orders 8 bytes * ⇒ confirmed*",
            "E *AssertionError: 2 messages instead of one: routing_key == 'orders'",
            "E *AssertionError: 0 messages instead of one: any message",
            "E * nothing was recorded",
        ]
    )
    result.stdout.no_fnmatch_line("*messages.py*")


def test_rules_that_are_wrong_are_shown_without_what_reads_them(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
    def test_rules(amqp_proxy):
        with amqp_proxy.fault("no-such-fault"):
            pass

    def test_fields(amqp_proxy):
        amqp_proxy.messages.where(colour="red")
    """)
    output = pytester.runpytest().stdout
    output.fnmatch_lines(["E *ConfigError:*no-such-fault*", "E *TypeError: a record has no field 'colour'*"])
    for name in ("local_proxy", "messages", "active_rules", "config_file"):
        output.no_fnmatch_line(f"*{name}.py*")


def test_the_report_can_be_switched_off(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_silence(amqp_proxy):\n    assert False")
    pytester.runpytest("--no-amqp-report").stdout.no_fnmatch_line("*AMQP through*")


def test_a_passed_test_shows_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(f"{PUBLISHER}\n    def test_orders(amqp_proxy):\n        published(amqp_proxy.url, 'orders')")
    pytester.runpytest("-rA").stdout.no_fnmatch_line("*AMQP through*")


def test_an_assertion_shows_the_messages_that_it_is_about(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(f"""{PUBLISHER}
    def test_orders(amqp_proxy):
        published(amqp_proxy.url, "orders", confirmed=False)
        amqp_proxy.assert_all_confirmed()
    """)
    result = pytester.runpytest()
    result.stdout.fnmatch_lines(
        ["E *AssertionError: 1 of 1 publishes not confirmed", "E * publish * routing_key=orders 8 bytes * ⇒ sent"]
    )
    result.stdout.no_fnmatch_line("*local_proxy.py*")


def test_a_broker_answers_as_the_version_of_its_parameter(pytester: pytest.Pytester) -> None:
    code = """
    import pytest

    @pytest.mark.parametrize("amqp_broker", ["3.10", "4.3"], indirect=True)
    def test_orders(amqp_broker):
        version = amqp_broker.do(lambda broker, now: broker.properties["version"])
        assert version.startswith(amqp_broker.profile)
    """
    passed(pytester, code, count=2)


def test_the_scopes(pytester: pytest.Pytester) -> None:
    code = """
    import pytest

    seen = []

    @pytest.fixture
    def brokers(amqp_broker, amqp_broker_module, amqp_broker_session):
        return amqp_broker, amqp_broker_module, amqp_broker_session

    @pytest.fixture
    def proxies(amqp_proxy, amqp_proxy_module, amqp_proxy_session):
        return amqp_proxy, amqp_proxy_module, amqp_proxy_session

    def test_one(brokers, proxies):
        assert [each.upstream for each in proxies] == [each.address for each in brokers]
        seen.extend((brokers, proxies))

    def test_other(brokers, proxies):
        for before, now in zip(seen, (brokers, proxies)):
            assert [one is other for one, other in zip(before, now)] == [False, True, True]
    """
    passed(pytester, code, count=2)


def test_in_front_of_a_broker_that_is_there(pytester: pytest.Pytester, broker: LocalBroker) -> None:
    code = f"""{PUBLISHER}
    def test_orders(amqp_proxy, request):
        assert amqp_proxy.upstream == "{broker.address}"
        assert "amqp_broker" not in request.fixturenames
        published(amqp_proxy.url, "orders")
    """
    passed(pytester, code, "--amqp-upstream", broker.address)
    assert broker.do(lambda model, now: list(model.vhosts["/"].queues)) == ["orders"]


@pytest.mark.real
def test_in_front_of_rabbitmq(pytester: pytest.Pytester, rabbitmq: RabbitMQ) -> None:
    code = f"""{PUBLISHER}
    def test_orders(amqp_proxy):
        published(amqp_proxy.url, "orders", "orders")
        amqp_proxy.wait_for("routing_key == 'orders'", count=2)
        amqp_proxy.assert_all_confirmed()
        with amqp_proxy.fault("nack"), pytest.raises(pika.exceptions.NackError):
            published(amqp_proxy.url, "orders")
    """
    passed(pytester, code, "--amqp-upstream", f"127.0.0.1:{rabbitmq.port}")


@pytest.mark.parametrize("address", ["broker", ":5672", "broker:amqp"])
def test_an_upstream_that_is_no_address(pytester: pytest.Pytester, address: str) -> None:
    result = pytester.runpytest("--amqp-upstream", address)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*'{address}' is not of the form HOST:PORT*"])


def test_a_run_without_the_fixtures_imports_nothing_for_them(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
    import sys

    def test_nothing():
        found = sorted(name for name in sys.modules if name.partition(".")[0] == "amqproxy")
        assert found == [
            "amqproxy", "amqproxy.compiled", "amqproxy.compiled._pure", "amqproxy.testing", "amqproxy.testing.plugin"
        ]
        assert "trio" not in sys.modules
    """)
    options = [
        f"-p no:{name}" for name in ("trio", "pytest-trio", "anyio", "hypothesispytest", "asyncio", "schemathesis")
    ]
    pytester.run(sys.executable, "-m", "pytest", *" ".join(options).split()).assert_outcomes(passed=1)


def test_the_fixtures_are_listed(pytester: pytest.Pytester) -> None:
    pytester.runpytest("--fixtures").stdout.fnmatch_lines(
        ["amqp_broker -- *", "    Yield a broker for the test alone*", "amqp_proxy -- *"]
    )


def test_recordings_of_tests_that_fail_and_of_one_that_crashes(pytester: pytest.Pytester, tmp_path: Path) -> None:
    pytester.makepyfile(f"""{PUBLISHER}
    import os
    import time

    @pytest.mark.parametrize("key", ["/a b/" * 100, "\u00e9" * 200])
    def test_fails(amqp_proxy, key):
        published(amqp_proxy.url, "orders")
        assert not key

    def test_crashes(amqp_proxy):
        published(amqp_proxy.url, "orders")
        time.sleep(1)
        os._exit(3)
    """)
    assert pytester.runpytest_subprocess("--amqp-record", str(tmp_path), "-p", "no:cacheprovider").ret == 3
    files = sorted(tmp_path.glob("*/amqproxy-*"))
    assert [file.name.endswith(".partial") for file in files] == [True, False, False]
    for file in files:
        found = [each for each in read_decoded(file) if isinstance(each, Amqp091DecodedFrames)]
        methods = [frame.method.name for each in found for frame in each.frames if frame.kind == METHOD]
        assert "basic.publish" in methods
        assert methods[-1] == "connection.close-ok"
