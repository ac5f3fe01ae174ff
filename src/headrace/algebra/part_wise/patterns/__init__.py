"""Pattern queries as state machines, and those as view delta functions (ViewDF 5.1)."""
