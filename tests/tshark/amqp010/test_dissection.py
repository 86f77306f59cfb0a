"""A frame of 0-10 from what tshark shows of it."""

from __future__ import annotations

from xml.etree import ElementTree

from amqproxy.tshark.amqp010.dissection import WHOLE, amqp010_frame, fields_of, shown_field

DECLARE = """
<proto name="amqp" size="35" pos="66">
  <field name="amqp.frame-position" show="15" value="F"/>
  <field name="amqp.type" show="1" value="01"/>
  <field name="amqp.length" show="35" value="0023"/>
  <field name="amqp.track-number" show="1" value="01"/>
  <field name="amqp.channel" show="3" value="0003"/>
  <field name="amqp.class" show="8" value="08"/>
  <field name="amqp.queue.method" show="1" value="01"/>
  <field name="amqp.method.arguments" showname="Arguments" show="" value="">
    <field name="amqp.struct.packing" show="0x4100" value="4100"/>
    <field name="amqp.queue.declare.queue" show="q" value="0171"/>
    <field name="amqp.queue.declare.auto-delete" show="0" value="0"/>
    <field name="amqp.method.queue.declare_argument.size" show="12" value="0000000c"/>
    <field name="amqp.queue.declare.arguments" showname="Arguments (1 entry)" show="" value="">
      <field name="amqp.field" showname="n (int32): 1" show="" value=""/>
    </field>
  </field>
</proto>"""

HEADER = """
<proto name="amqp" size="25" pos="66">
  <field name="amqp.frame-position" show="7" value="7"/>
  <field name="amqp.type" show="2" value="02"/>
  <field name="amqp.length" show="25" value="0019"/>
  <field name="amqp.channel" show="0" value="0000"/>
  <field name="amqp.struct32_size" show="9" value="00000009"/>
  <field name="amqp.struct32" showname="struct: message.delivery-properties (0x0401)" show="0x0401" value="0401">
    <field name="amqp.struct32.class" show="4" value="04"/>
    <field name="amqp.message.delivery-properties.routing-key" show="k" value="016b"/>
  </field>
</proto>"""


def test_the_arguments_of_a_command() -> None:
    layer = ElementTree.fromstring(DECLARE)
    frame = amqp010_frame(layer, {each.get("name", ""): shown_field(each) for each in layer}, 9, 2, 5672)
    assert (frame.packet, frame.stream, frame.source_port) == (9, 2, 5672)
    assert (frame.protocol, frame.type, frame.channel, frame.size, frame.flags) == ("0-10", "command", 3, 23, 15)
    assert frame.method == (8, 1)
    assert frame.fields.keys() == {"queue", "auto_delete", "arguments", WHOLE}
    assert [each.label for each in frame.fields["arguments"].within] == ["n (int32): 1"]


def test_the_structs_of_a_header() -> None:
    layer = ElementTree.fromstring(HEADER)
    frame = amqp010_frame(layer, {each.get("name", ""): shown_field(each) for each in layer}, 9, 2, 5672)
    assert (frame.type, frame.method, list(frame.fields)) == ("header", None, ["0x0401"])
    assert fields_of(frame.fields["0x0401"].within).keys() == {"routing_key"}
