"""Captures: files of packets, read as live traffic is.

A file goes up floor by floor, and each floor is a function of the one below:

    files           a path, `-` or a stream  → octets → `Packet`s     what the file is, its first octets say
      octets          plain or gzip, as a window that moves forward
      pcap, pcapng    the two formats
    packets         `Packet` → `Segment`     link layer, IP, TCP      (compiled)
      fragments       IP fragments, put together
    reassembly      `Segment`s → `Event`s    TCP streams, in order    (compiled)
      events          `Opened`, `Data`, `Gap`, `Closed`
      endpoints       addresses and ports
    decode          `Event`s → `Passed` → `Record`s, for all streams of a file
      talk            one stream: its protocol, its client, its two sides   (may be compiled)
      finder          one side: frames, in octets with holes and rubbish    (may be compiled)
      boundary        where a frame begins, when that was lost
      passed          frames, protocol headers, and what was skipped
    choice          `Passed` → `Passed`       of the commands for which a filter holds
    rehearsal       `Passed` → what rules would have done to it

`read_records` is what `decode` prints; `read_passed` gives the same as frames that are not decoded yet, which is many
times as fast, and has their octets.

`notices` says what is wrong with a file: a `CaptureError` ends the reading, a `Notice` goes with what could be read.

`rehearsal` and `choice` ask `amqproxy.rules`; what a record is, `amqproxy.taps` says; all else needs `amqproxy.amqp091`
alone. Nothing here opens a socket, reads a clock or knows of trio; the only input is a file that is read from its
beginning to its end. Every buffer and table has a limit with a name.
"""
