"""Sources of verdicts: a local model, an endpoint, a recording."""
