"""Subscriptions: their requests, the work of a pull worker, and the checks of a webhook's receiver."""
