"""Wireshark's engine as a supplement: TLS decryption, other link layers, live capture, and a second opinion.

    engine          tshark and dumpcap, found and given their parameters by pyshark
    packet_pipe     packets in, a row of fields for each out, through one concurrent tshark process
    tshark          the second engine of a reading, which starts the following as needed
      decryption    TLS streams → their plaintext, with secrets of the file or of a key log
      link_layers   packets of a link type that amqproxy does not read → TCP segments
    live_capture    packets of a network interface, as dumpcap writes them
    dissection      the frames of a capture, as read by Wireshark's AMQP dissector: `dissected_frame`s
    known_faults    known faults of that dissector
    verification    the frames of both engines side by side: every difference, also in their fields
                    (`field_comparison`)

pyshark chooses programs and parameters; its packet objects are not used: from PDML they take five times as long as
tshark's fields, and from JSON or EK they have one AMQP frame of each packet. docs/captures.md has the figures.
Everything here needs tshark and the extra `captures`; `TsharkMissing` is raised if they are not installed.
"""
