# `pump_message`, all of which is here.

from amqproxy.pump.pumped_connection cimport Pumped


cdef enum:
    BEGIN = 1  # to the loop: relay a connection
    RECALL = 2  # to the loop: give it back, and answer
    STOP = 3  # to the loop: end
    RETURNED = 4  # to the owner: a connection is given back
    ACKNOWLEDGED = 5  # to the owner: a recall has been seen
    MUCH_WRITTEN = 6  # to the owner: read the journal


cdef struct PumpMessage:
    # A connection, and what becomes of it.
    Pumped *connection
    long long kind
