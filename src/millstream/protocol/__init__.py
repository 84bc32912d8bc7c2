"""The rules of the Durable Streams protocol, each written once, as pure functions and data.

Nothing here reads a socket, a file, a clock or a random source: time and randomness are arguments,
decisions are return values. Stores persist the decisions, servers and clients move bytes.

Numbers such as A2 or G8 are rules of the table in the conformance suite. Each module names those that it
decides.
"""
