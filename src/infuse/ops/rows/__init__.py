"""What operators do with the rows of a batch where their `shared_axes` do not say it, by family:
each function is one for the operators that it names (`@rows_of(Gather)`, `ops/core/rows.py`).
"""
