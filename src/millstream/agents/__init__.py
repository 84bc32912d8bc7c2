"""Durable streams for agents: one module per framework, none of which is imported unless used."""
