"""The router protocol of interior routers: next hops, costs, valid origins, remote addresses (docs/network.md).

It is imported in interior mode only. It has no sockets and no clock: messages come in as bytes, time as an
argument, and the results go out through a `Port`.
"""
