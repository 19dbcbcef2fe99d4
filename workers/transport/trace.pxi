"""Protocol trace (trace.h): which connections' frames the handler is told of."""


cdef class Trace:
    """The trace of one pump's connections; each frame is a call of ``trace(connection, text, asked)`` of its handler."""

    cdef Pump pump

    def __cinit__(self, Pump pump):
        self.pump = pump

    def all(self, bint tracing):
        """Trace every connection that was not told otherwise, or none of them any longer."""
        trace_all(&self.pump.p, tracing)

    def one(self, uint32_t index, uint32_t generation, wish):
        """Trace a connection, or not, whatever the others do; None: as the others."""
        cdef wconn *c = <wconn *> pool_find2(&self.pump.p.conns, index, generation)
        if c != NULL:
            c.trace = TRACE_AS_LOGGED if wish is None else TRACE_ON if wish else TRACE_OFF
            trace_apply(&self.pump.p, c)

    def messages(self, uint32_t index, uint32_t generation, bint wanted):
        """Tell of each message of a connection, or not: the handler's ``tracing.messages.seen``."""
        cdef wconn *c = <wconn *> pool_find2(&self.pump.p.conns, index, generation)
        if c != NULL:
            c.messages_logged = wanted
