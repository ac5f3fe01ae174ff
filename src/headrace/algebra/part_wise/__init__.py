"""Translation of queries over streams into view delta functions: each part of a view from a few parts of others."""
