"""Subscriptions of a store: which streams wake whom, kept in the same log as the streams."""
