"""The frames of a capture as read by Wireshark's AMQP dissector, from the PDML that tshark writes."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from xml.etree import ElementTree

import msgspec

from amqproxy.capture.warnings import CaptureError
from amqproxy.tshark.dialects import DISSECTORS
from amqproxy.tshark.dissected_frame import DissectedFrame, Shown
from amqproxy.tshark.engine import file_command

TYPES = {1: "method", 2: "header", 3: "body", 8: "heartbeat"}

_PREFERENCES = {"tcp.desegment_tcp_streams": "TRUE", "tcp.reassemble_out_of_order": "TRUE"}


def dissected(file: str, ports: Iterable[int]) -> Iterator[DissectedFrame]:
    """Yield the frames of a capture file in compared protocols, on TCP connections with one of these ports."""
    output = ["-T", "pdml", "-J", "tcp amqp _ws.malformed"]
    decode_as = {f"tcp.port=={port}": "amqp" for port in sorted(ports)}
    command = file_command(file, output, preferences=_PREFERENCES, decode_as=decode_as)
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL)
        assert process.stdout is not None
        with process.stdout:
            try:
                for packet in _packets(process.stdout):
                    yield from _frames(packet)
            except ElementTree.ParseError:
                if process.wait() == 0:
                    raise
            finally:
                process.kill()
                process.wait()
        errors.seek(0)
        said = [line for line in errors.read().decode("utf-8", "replace").splitlines() if line.startswith("tshark:")]
        if said and "cut short" not in said[-1]:
            raise CaptureError(file, 0, said[-1], "see whether tshark reads it by itself: `tshark -r FILE`")


def _packets(output: object) -> Iterator[ElementTree.Element]:
    """Yield the packets of a PDML document, one at a time."""
    root: ElementTree.Element | None = None
    for event, element in ElementTree.iterparse(output, events=("start", "end")):  # type: ignore[call-overload]
        if root is None:
            root = element
        elif event == "end" and element.tag == "packet":
            yield element
            root.clear()


def _frames(packet: ElementTree.Element) -> list[DissectedFrame]:
    number = stream = port = 0
    frames: list[DissectedFrame] = []
    for layer in packet:
        name = layer.get("name")
        if name == "geninfo":
            number = int(_show(layer, "num"))
        elif name == "tcp":
            stream, port = int(_show(layer, "tcp.stream")), int(_show(layer, "tcp.srcport"))
        elif name == "amqp":
            frame = _frame(layer, number, stream, port)
            if frame is not None:
                frames.append(frame)
        elif name == "_ws.malformed" and frames:
            frames[-1] = msgspec.structs.replace(frames[-1], is_given_up=True)
    return frames


def _frame(layer: ElementTree.Element, packet: int, stream: int, port: int) -> DissectedFrame | None:
    found = {shown.label: shown for shown in map(_shown, layer)}
    if "amqp.init.protocol" in found:
        return DissectedFrame(packet=packet, stream=stream, source_port=port, type="protocol-header", fields=found)
    if "amqp.type" not in found or "amqp.length" not in found or "amqp.doff" in found:
        return None
    for field, dissector in DISSECTORS.items():
        if field in found:
            return dissector(layer, found, packet, stream, port)
    kind = int(found["amqp.type"].text)
    method, payload = None, b""
    inner: tuple[Shown, ...] = ()
    if kind == 1 and "amqp.method.method" in found:
        method = (int(found["amqp.method.class"].text), int(found["amqp.method.method"].text))
        inner = found["amqp.method.arguments"].within if "amqp.method.arguments" in found else ()
    elif kind == 2 and "amqp.header.properties" in found:
        inner = (found["amqp.header.body-size"], *found["amqp.header.properties"].within)
    elif kind == 3 and "amqp.payload" in found:
        payload = bytes.fromhex(found["amqp.payload"].hex)
    return DissectedFrame(
        packet=packet,
        stream=stream,
        source_port=port,
        type=TYPES.get(kind, f"type {kind}"),
        channel=int(found["amqp.channel"].text),
        size=int(found["amqp.length"].text),
        method=method,
        fields={shown.label.rpartition(".")[2]: shown for shown in inner},
        payload=payload,
    )


def _show(layer: ElementTree.Element, name: str) -> str:
    return next((each.get("show", "0") for each in layer if each.get("name") == name), "0")


def _shown(field: ElementTree.Element) -> Shown:
    """Convert a field; one without a text, such as a table entry, is shown by its label."""
    name = field.get("name", "")
    label = field.get("showname", "") if name.startswith("amqp.field") else name
    return Shown(label, field.get("show", ""), field.get("value", ""), tuple(map(_shown, field)))
