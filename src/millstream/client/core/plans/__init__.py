"""What each request of the client does, as a generator of steps: it decides, a shell moves the bytes."""
