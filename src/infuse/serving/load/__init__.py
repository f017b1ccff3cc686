"""Load on a server of the Open Inference Protocol v2, and what its callers would see of it."""
