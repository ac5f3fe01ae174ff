"""User-defined aggregates at work: rows in, rows out, and what each group keeps in between. Pure Arrow and NumPy."""
