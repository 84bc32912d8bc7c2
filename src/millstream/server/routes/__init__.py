"""Routes: from a request to its answer. Nothing here knows a socket, so every server answers alike."""
