"""What routers say to each other, and what they make of it: next hops, costs, valid origins, remote
addresses.

Imported in interior mode only. No sockets and no clock: messages come in as bytes, time as an argument, and
what follows goes out through an `Port`.
"""
