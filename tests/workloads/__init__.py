"""Whole workloads: TPC-H and Nexmark as views, beside the same queries run in batch."""
