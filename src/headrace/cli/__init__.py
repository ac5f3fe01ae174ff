"""The `headrace` command: SQL scripts and a prompt, the refresh loop, status, the demo and the benchmarks."""

from headrace.cli.app import app, main

__all__ = ["app", "main"]
