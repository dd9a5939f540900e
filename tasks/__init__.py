"""Prefect tasks and Ray actors, one stage each. The only place that imports Ray."""
