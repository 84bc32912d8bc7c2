"""Stores: they find streams, ask `protocol` for a decision, and make it durable."""
