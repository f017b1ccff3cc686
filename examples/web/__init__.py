"""Pages that run models in the browser (`python -m examples.web`)."""
