# What C sees of others in `frame_columns`.

from libc.string cimport memcpy

from amqproxy.capture.byte_access cimport field_size_at, long_at, long_long_at
from amqproxy.capture.json_lines cimport JSONLines
