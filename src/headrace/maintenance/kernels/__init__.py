"""What a stage does with typed columns: match, join, count, group, order. Pure functions of Arrow tables.

A change table has the columns of the row and `__t`, `__w` and `__h`; state has them without `__t`.
"""
