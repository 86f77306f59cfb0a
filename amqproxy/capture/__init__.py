"""Captures: files of packets, decoded as live traffic is.

A file is read in steps, and each step is a function of the one before:

    files           a path, `-` or a stream  → bytes → `Packet`s      chooses the format by the file's first bytes
      byte_window     plain or gzip, as a window that moves forward
      pcap, pcapng    the two formats
    packets         `Packet` → `TCPSegment`   link layer, IP, TCP      (compiled)
      fragments       IP fragments, reassembled
    reassembly      `TCPSegment`s → `Event`s  TCP streams, in order    (compiled)
      stream_events   `Opened`, `Data`, `Gap`, `Closed`
      endpoints       addresses and ports
    decode          `Event`s → `Decoded` → `Record`s, for all streams of a file
      conversation    one stream: its protocol, its client, its two sides          (may be compiled)
      frame_resync    one side: frames, from bytes with gaps and garbage in them   (may be compiled)
      boundary        finds the next frame boundary after a gap
      decoded         frames, protocol headers, and skipped bytes
    filtering       `Decoded` → `Decoded`     only the commands that a filter matches
    dry_run         `Decoded` → what rules would have done to it

`read_records` returns what `decode` prints; `read_decoded` returns the same as frames whose fields are not decoded yet,
which is many times as fast and keeps their bytes.

`warnings` defines what is reported about a file: a `CaptureError` ends the reading, a `CaptureWarning` does not.

`dry_run` and `filtering` use `amqproxy.rules`; records come from `amqproxy.taps`; everything else needs
`amqproxy.amqp091` alone. Nothing here opens a socket, reads a clock or imports trio; the only input is a file that is
read from start to end. Every buffer and table has a named limit.
"""
