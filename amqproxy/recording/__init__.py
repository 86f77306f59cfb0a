"""Recordings: what sessions relay, as pcapng files that Wireshark, tshark and `amqproxy decode` read.

    recorder_tap    what sessions show → `Entry`s                     in the event loop: a few microseconds a chunk
      entry_queue   entries on their way to the thread                bounded in bytes; full: dropped, or sessions wait
    recorder        start, stop, status, and what is done where the disk hangs
    writing_thread  opens files, and gives them what waits in the queue
    recording_encoder  `Entry`s → packets of both legs                in that thread: two to four microseconds a packet
      leg_addresses   the addresses of a leg, or made-up ones
    recording_files  packets → files, one after the other            in that thread
      recording_directory  their names, and what a crash has left
      recording_ring  those that are complete, of which the oldest are deleted
    maintenance_thread  completes what a crash has left; compresses   in one more thread

A recording is of what passed on each leg, secrets masked, as taps are shown it: what rules redact is redacted here.

Imports: `amqproxy.proxy`, `amqproxy.capture`, `amqproxy.taps` and what is below them; trio in `recorder` alone.
"""
