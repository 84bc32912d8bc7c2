"""Idempotent producers: what is sent, which session it belongs to, and how one is continued."""
