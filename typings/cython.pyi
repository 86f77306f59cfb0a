# What our sources use of `cython`, whether or not it is installed: exactly what the stand-ins offer.
from amqproxy.compiled._cython import *
