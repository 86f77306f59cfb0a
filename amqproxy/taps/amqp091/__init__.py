"""0-9-1 frames in the form shown to taps: `chunk` has the frames of one read.

Imports: `amqproxy.amqp091`.
"""
