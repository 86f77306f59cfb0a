"""Frames that come one by one, as a chunk; arguments of methods of both protocols."""

from __future__ import annotations

from amqproxy.amqp010.commands import ExecutionResult, MessageTransfer, QueueDelete
from amqproxy.amqp010.controls import ConnectionStartOk as Amqp010StartOk
from amqproxy.amqp010.controls import SessionCompleted
from amqproxy.amqp010.properties import Header
from amqproxy.amqp010.results import QueueQueryResult
from amqproxy.amqp010.wire import Entry, Map
from amqproxy.amqp091.frame import every_frame
from amqproxy.amqp091.methods import BasicAck, BasicPublish, ConnectionStartOk, QueuePurge, QueuePurgeOk
from amqproxy.amqp091.wire import Table
from amqproxy.taps.amqp010.chunk import Amqp010Chunk
from amqproxy.taps.amqp010.transfers import TransferPublish
from amqproxy.taps.amqp091.chunk import Amqp091Chunk, Amqp091Frames
from amqproxy.taps.dialects import answered_name, chunk_of, json_form, method_arguments
from amqproxy.taps.record import MASK
from tests.taps.trace.traced import frames_of


def test_a_chunk_stays_what_it_is() -> None:
    for chunk in (Amqp091Chunk(b"", 0, 0), Amqp010Chunk(b"", 0, [])):
        assert chunk_of(chunk) is chunk


def test_frames_become_one_of_0_9_1() -> None:
    frames = [*frames_of(1, BasicAck(1)), *frames_of(2, BasicPublish(), body=b"x" * 100)]
    chunk = chunk_of(frames)
    assert isinstance(chunk, Amqp091Frames)
    assert (list(chunk), len(chunk), chunk.protocol) == (frames, 4, "0-9-1")
    assert chunk.size == len(chunk.data)
    assert [frame.raw for frame in every_frame(chunk.data, 0)] == [frame.raw for frame in frames]
    assert chunk.unmade() is chunk
    assert [list(part) for part in chunk.parts(3)] == [frames[:3], frames[3:]]
    assert [record.type for record in chunk.records(ts_ns=1, stream=1, connection="c", sender="client")] == [
        "method",
        "method",
        "header",
        "body",
    ]


def test_frames_one_by_one_take_more_memory_and_methods_more_than_bodies() -> None:
    ack, body = chunk_of(frames_of(1, BasicAck(1))), chunk_of(frames_of(2, BasicPublish(), body=b"x" * 100)[2:])
    assert ack.memory(10, 4) == 10 + 4 * ack[0].size
    assert body.memory(10, 4) == 10 + 100
    chunk = Amqp091Chunk(ack.data, 0)
    assert chunk.memory(10, 4) == chunk.size


def test_each_has_the_names_of_its_specification() -> None:
    assert method_arguments(QueuePurge(queue="q"))["queue"] == "q"
    assert method_arguments(QueueDelete(queue="q")) == {"queue": "q", "if_unused": False, "if_empty": False}


def test_a_reply_names_its_request_unless_it_may_be_of_several_kinds() -> None:
    assert answered_name(QueuePurgeOk(1)) == "queue.purge"
    assert answered_name(ExecutionResult(value=QueueQueryResult(queue="q"))) == "queue.query"
    assert answered_name(SessionCompleted()) is None


def test_a_message_has_those_of_its_transfer() -> None:
    transfer = MessageTransfer(destination="x", accept_mode=1, acquire_mode=0)
    assert method_arguments(TransferPublish.of(transfer, Header())) == {
        "destination": "x",
        "accept_mode": 1,
        "acquire_mode": 0,
    }


def test_secrets_are_masked() -> None:
    for method in (ConnectionStartOk(response=b"secret"), Amqp010StartOk(response=b"secret")):
        assert method_arguments(method)["response"] == MASK


def test_tables_of_both_protocols_have_a_json_form() -> None:
    assert json_form(Map([Entry("a", "uint8", 1)])) == json_form(Table({"a": 1})) == {"a": 1}
