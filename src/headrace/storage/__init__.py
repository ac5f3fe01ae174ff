"""What is kept: the catalog, temporal parts in Parquet, snapshots and the one transaction that makes them visible."""
