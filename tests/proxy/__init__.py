"""The proxy's shell against a client and a broker that the tests play: no network, no clock but a fake one."""
