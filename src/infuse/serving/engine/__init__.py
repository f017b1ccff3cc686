"""What answers requests: batches, pipelines and versions that run; it knows no transport."""
