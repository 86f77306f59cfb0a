"""Frames of AMQP 0-10, as tshark shows them and as they are decoded here."""
