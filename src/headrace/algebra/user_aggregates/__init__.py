"""User-defined aggregates (ESL): what a definition means, and the program it is compiled to. No engine, no Arrow."""
