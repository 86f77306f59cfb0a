"""A chaos monkey: exceptions injected wherever the code could raise one, while a well-behaved client looks on.

`sites` finds every await and every function of the servers in their sources, and makes each a place where an exception
can be raised. `run` starts the proxy with the integrated broker, lets a *victim* use it while one site is armed,
and a *witness* check that it notices nothing: every message confirmed, delivered once and in order.
"""
