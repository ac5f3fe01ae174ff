"""Sliding-window aggregates as view delta functions, by one of several strategies (ViewDF 5.2)."""
