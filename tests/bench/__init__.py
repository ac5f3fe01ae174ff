"""Tests of the benchmarks: the harness on toys, the experiments at tiny sizes."""
