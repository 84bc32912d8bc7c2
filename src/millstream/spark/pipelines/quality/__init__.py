"""Quality of records: what is expected of them, and bad ones that were repaired."""
