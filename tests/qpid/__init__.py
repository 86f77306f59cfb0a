"""Apache Qpid, as a peer that speaks AMQP 0-10: the broker Broker-J, and the clients for JMS and for Python.

What they need comes from Maven Central and PyPI, as `jars.txt` pins it, and is kept in `build/qpid`; `java` has our own
programs. The Python client needs a Python 2.7, which Debian no longer has: where there is none, its tests say so.
"""
