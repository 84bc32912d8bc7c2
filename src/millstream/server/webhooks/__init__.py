"""Webhooks: where deliveries may go, and how one is sent."""
