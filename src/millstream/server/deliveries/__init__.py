"""Deliveries: webhooks are sent, in parallel and fairly, and signed."""
