# What C sees of others in `frame_columns`.

from libc.string cimport memcpy

from amqproxy.amqp010.frame cimport Frame as Amqp010Frame
from amqproxy.capture.amqp010.json_fields cimport put_map, put_uuid, put_value, value_size_at
from amqproxy.capture.frame_writer cimport FrameWriter, method_index
from amqproxy.capture.json_lines cimport JSONLines, put_table, value_size
from amqproxy.capture.json_text cimport character_size
from amqproxy.compiled.byte_access cimport long_at, long_long_at, put_digits, signed_long_long_at
