"""Recordings of the relayed traffic as pcapng files that Wireshark, tshark and `amqproxy decode` read.

    recorder_tap    tap callbacks → `Entry`s                          in the event loop: a few microseconds a chunk
      entry_queue   entries on their way to the writing thread        bounded in bytes; full: dropped, or sessions wait
    recorder        start, stop, status, and stalled disks
    writing_thread  opens files, and writes the queued entries
    recording_encoder  `Entry`s → packets of both legs                in that thread: two to four microseconds a packet
      leg_addresses   the addresses of a leg, real or made up
    recording_files  packets → a sequence of files                    in that thread
      recording_directory  file names, locks, and recovery after a crash
      recording_ring  complete files, of which the oldest are deleted
    maintenance_thread  completes files left by a crash; compresses   in one more thread

A recording holds the traffic of each leg with secrets masked, as taps see it: content that rules redact is redacted
here, too.

Imports: `amqproxy.proxy`, `amqproxy.capture`, `amqproxy.taps` and what is below them; trio in `recorder` alone.
"""
