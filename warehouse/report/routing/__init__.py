"""The report's sections on response reuse: reading, figures, tables and the pair viewer."""
