"""System calls of a pump and lock-free operations between its threads; the `.pxd` contains all of it, in C."""
