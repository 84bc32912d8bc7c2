"""Durable streams for Python and Spark."""
