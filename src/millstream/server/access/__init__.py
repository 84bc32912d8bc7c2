"""Access: authorization, rate limits, load shedding, and CORS."""
