"""The papers' figures and the peers beside us: one experiment a module, each with its baselines in the same process.

To add one, write a module here with a function decorated by `bench.experiments.experiment`; the harness finds it.
"""
