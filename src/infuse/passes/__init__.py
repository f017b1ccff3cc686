"""Graph optimization: the pipeline, its passes and its rules."""
