"""What does nothing or can be said simpler."""
