"""When it happens: the clock, arrivals, definitions, changes by hand, refreshes and the loop that keeps them going."""
