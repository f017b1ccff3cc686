"""C for any machine: loops over single elements, in one file, for one thread."""
