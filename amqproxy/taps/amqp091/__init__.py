"""0-9-1 frames as taps are shown them: `chunk` has the frames of one read.

Imports: `amqproxy.amqp091`.
"""
