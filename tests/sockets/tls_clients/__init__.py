"""TLS clients in several languages, for `test_tls_languages`: one program, told again in each.

    PROGRAM PORT AUTHORITY (VERSION FILE)…

With each FILE, a certificate and its key in PEM, it connects to localhost by TLS 1.2 or 1.3, verifies the listener by
the AUTHORITY, sends its certificate whoever has signed it, and reads a byte. It prints a line each: `ok`, or why not.
"""
