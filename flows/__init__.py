"""Flows, deployments and the `cachemend` command: what runs, in which order."""
