"""The report's sections on repair after an in-place edit: reading, summaries, figures and the item viewer."""
