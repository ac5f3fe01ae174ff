"""Aggregates written in ESL that come with Headrace: LOAD AGGREGATES makes them known to a home."""
