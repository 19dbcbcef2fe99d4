"""The protocol trace (trace.c): the connections whose frames the handler gets."""


cdef class Trace(PumpPart):
    """The trace of one pump's connections; the pump calls the handler's ``trace(connection, text, asked)``."""

    def all(self, bint tracing):
        """Trace all connections without a setting of their own, or none of them."""
        trace_all(&self.pump.p, tracing)

    def one(self, uint32_t index, uint32_t generation, setting):
        """Set whether a connection is traced; None lets the setting of all decide."""
        cdef worker_connection *c = <worker_connection *> pool_find2(&self.pump.p.conns, index, generation)
        if c != NULL:
            c.trace = TRACE_AS_LOGGED if setting is None else TRACE_ON if setting else TRACE_OFF
            trace_apply(&self.pump.p, c)

    def messages(self, uint32_t index, uint32_t generation, bint wanted):
        """Set whether the pump calls the handler's ``tracing.messages.seen`` for a connection's messages."""
        cdef worker_connection *c = <worker_connection *> pool_find2(&self.pump.p.conns, index, generation)
        if c != NULL:
            c.messages_logged = wanted
