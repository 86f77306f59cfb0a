"""Wireshark's engine beside our own: TLS, link layers that we do not read, live capture, and a second opinion.

    engine          tshark and dumpcap, found and given their parameters by pyshark
    packet_pipe     packets in, a row of fields for each out, through one tshark that runs beside us
    tshark          the second engine of a reading: what of the following it needs
      decryption    TLS streams → what they hold, with secrets of the file or of a key log
      link_layers   packets of a link type that we do not read → TCP segments
    live_capture    packets of a network interface, as dumpcap writes them
    dissection      a capture as frames, as Wireshark's dissector of AMQP reads it: `dissected_frame`s of 0-9-1, and
                    of 0-10 (`amqp010.dissection`)
    known_faults    what that dissector is known to get wrong
    verification    our frames and those, side by side: every difference, also in their fields (`field_comparison`,
                    `amqp010_field_comparison`)

pyshark chooses programs and parameters; its packet objects are not used, which are made at 145 packets a second.
Everything here needs tshark and the extra `captures`; `TsharkMissing` is raised where they are not installed.
"""
