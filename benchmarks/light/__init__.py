"""Light networks side by side: accuracy as published, counts, bytes, and time as measured."""
