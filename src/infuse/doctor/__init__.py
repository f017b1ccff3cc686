"""Known faults of exporters and runtimes, seen in the user's file."""
