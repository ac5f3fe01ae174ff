"""What a query means, with no Spark in it."""
