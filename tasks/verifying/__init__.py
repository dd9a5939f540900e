"""Sources of verdicts: a local model, an endpoint, a recording; and, for diagnosis only, the labels."""
