"""Record schemas, the atomic Parquet writer, DuckDB views, SQL and the report."""
