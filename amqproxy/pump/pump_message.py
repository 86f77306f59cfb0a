"""Messages in the pipes between a pump's owner and its loop; the `.pxd` contains all of it, in C."""
