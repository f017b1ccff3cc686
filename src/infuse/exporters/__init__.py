"""Writers of foreign model formats."""
