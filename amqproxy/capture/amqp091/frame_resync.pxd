# What C sees of others in `frame_resync`.

from amqproxy.compiled.byte_access cimport long_at
