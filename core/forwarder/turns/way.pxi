"""How other threads of Python let the core's own go first. Part of forward.pyx."""

cdef extern from "core/forwarder/turns/turns.h" nogil:
    bint core_in_python(const core_router *)
    void core_give_way(const core_router *)


cdef class Way(Part):
    """Lets the thread of ``Forwarder.run`` have the interpreter lock. Other threads use it, between portions of work."""

    def give(self) -> None:
        """Give up the lock if that thread wants it, until it has used it, for about a millisecond at most."""
        if core_in_python(self.forwarder.core):
            with nogil:
                core_give_way(self.forwarder.core)
