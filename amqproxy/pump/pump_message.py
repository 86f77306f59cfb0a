"""What goes through the pipes between a pump's owner and its loop. All of it is C, in the `.pxd`."""
