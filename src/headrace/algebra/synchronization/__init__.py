"""Synchronization without any data: sets of moments by their definitions, and the skinned form of a view."""
