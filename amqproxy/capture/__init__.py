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

`notices` says what is wrong with a file: a `CaptureError` ends the reading, a `Notice` goes with what could be read.

Nothing here opens a socket, reads a clock or knows of trio; the only input is a file that is read from its beginning to
its end. Every buffer and table has a limit with a name.
"""
