"""Subscriptions: durable cursors that wake workers when streams have something new (PROTOCOL.md 6, 7)."""
