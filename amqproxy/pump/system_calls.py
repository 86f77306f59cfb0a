"""What a pump asks of the system, and what its threads share without a lock. All of it is C, in the `.pxd`."""
