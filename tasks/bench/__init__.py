"""`make bench`: ratios within one run, each beside the floor that the same run calibrates."""
