"""Router annotations (annotations.h): this router's identity, and the form on each connection."""


cdef class AnnotatingPump:
    """The part of the pump that handles router annotations."""

    cdef native_pump p
    cdef annotations_self identity

    def sign(self, str router, bint edge):
        """Set this router's name in messages, ``area/id``; an edge router has none. Raises ValueError."""
        cdef bytes name = b"" if edge else router.encode()
        if len(name) > ANNOTATIONS_ID_MAX:
            raise ValueError(f"the router's id has {len(name)} octets with its area; at most {ANNOTATIONS_ID_MAX} can be said to others")
        memcpy(self.identity.id, <const char *> name, len(name))
        self.identity.length = len(name)

    def extract(self, bint messages, bint transactions):
        """Set what the worker extracts from each message for flow log and tracing."""
        self.p.extracts = (EXTRACT_MESSAGES if messages else 0) | (EXTRACT_TRANSACTIONS if messages and transactions else 0)

    def connection_annotations(self, uint32_t index, uint8_t form, bint strip_in, bint strip_out):
        """Set the form (content.h, enum content_annotations) of router annotations on a connection.

        With ``strip_in`` the router ignores those of received messages; with ``strip_out`` it sends none. From a
        peer that uses message-annotations, the router also accepts skupper-router's section.
        """
        cdef worker_connection *c = <worker_connection *> pool_at(&self.p.conns, index)
        c.trusted = 0 if strip_in else annotations_form_bit(form)
        if not strip_in and form == ANNOTATIONS_MAP:
            c.trusted |= annotations_form_bit(ANNOTATIONS_SKUPPER)
        c.annotations = ANNOTATIONS_NONE if strip_out else form
