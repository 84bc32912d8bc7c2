"""The rules of the Durable Streams protocol, each written once, as pure functions and data.

Nothing here reads a socket, a file, a clock or a random source: time and randomness arrive as
arguments, decisions leave as values. Stores persist the decisions, servers and clients move bytes.
"""
