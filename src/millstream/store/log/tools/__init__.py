"""Offline tools on a data folder: check, backup and restore."""
