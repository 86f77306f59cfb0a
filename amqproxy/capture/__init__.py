"""Captures: files of packets, decoded as live traffic is.

A file is read in steps, each of which is a function of the previous one:

    files           paths, `-` or streams → bytes → `Packet`s         detects the format from the file's first bytes
      byte_window     plain or compressed, as a window that moves forward
      compression     gzip, zstd and lz4
      pcap, pcapng    the two formats
      packet_comment  verdicts of rules, in the comments of a recording's packets
    packets         `Packet` → `TCPSegment`   link layer, IP, TCP      (compiled)
      fragments       IP fragments, reassembled
    reassembly      `TCPSegment`s → `Event`s  TCP streams, in order    (compiled)
      stream_events   `Opened`, `Data`, `Gap`, `Closed`
      endpoints       addresses and ports
    decode          `Event`s → `Decoded` → `Record`s, for all streams of a file
      conversation    one stream: its protocol, its client, its two sides          (may be compiled)
      frame_resync    one side: frames, from bytes with gaps and garbage in them   (a folder each protocol)
      boundary        finds the next frame boundary after a gap
      unreadable_bytes  bytes between frames
      decoded         frames, protocol headers, and skipped bytes
    frame_writer    the walk over frames that the next three share                     (may be compiled)
    json_lines      `Decoded` → lines of JSON, from the bytes of frames                (may be compiled)
      json_text       texts in JSON                                                    (may be compiled)
    text_lines      `Decoded` → lines for human readers                                (may be compiled)
    command_gatherer  frames → commands, of one connection
    arrow           `Decoded` → Arrow record batches; needs pyarrow
      frame_columns   rows as columns, from the bytes of frames                        (may be compiled)
    packet_decoder  pieces of pcapng, as a proxy sends them → `Decoded`, numbered by its sessions
    filtering       `Decoded` → `Decoded`     only the commands that a filter matches
    selection       `Decoded` → `Decoded`     of the selected connection, channel and time
    dry_run         `Decoded` → the verdicts that rules would have reached

A file is written in the other direction, from frames or their bytes:

    secrets         bytes of frames → the same, with passwords masked                  (a folder each protocol)
    frame_cuts      the places to cut them into packets                                (a folder each protocol)
    synthetic_tcp   IP and TCP around them, of a made-up connection                    (may be compiled)
    pcapng_writer   the blocks of a file                                               (may be compiled)

`read_decoded` returns frames with undecoded fields, and keeps their bytes; `records_of` returns their records, the
output of `decode`.

`warnings` defines the problems of a file: a `CaptureError` ends the reading, a `CaptureWarning` does not.

Each protocol has its folder, for frames in bytes, their secrets and their commands.

`dry_run` and `filtering` use `amqproxy.rules`; records come from `amqproxy.taps`; everything else needs
the protocols alone. Nothing here opens a socket, reads a clock or imports trio; the only
input is files that are read from start to end. Every buffer and table has a named limit.
"""
