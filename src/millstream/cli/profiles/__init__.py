"""Profiles: servers and tokens with a name."""
