"""Property tests: what must hold for any rows, in any order, in any batching.

Two oracles: the query run in batch over the relations AS OF a time, and for streams, tables and versions a brute-force
model in plain Python that shares no code with the package.
"""
