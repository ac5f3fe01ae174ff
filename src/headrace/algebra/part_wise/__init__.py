"""Queries that are kept part by part: their translation into view delta functions, text in and text out."""
