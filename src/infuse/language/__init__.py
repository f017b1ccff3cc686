"""Language models: decoders as graphs, their caches, and generation."""
