"""Pipelines that keep state between batches: keys that were seen, tables that change."""
