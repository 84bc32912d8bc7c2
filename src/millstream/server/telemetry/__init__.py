"""What the server reports: metrics, logs, traces, and the admin port."""
