"""Router annotations (annotations.h): how this router signs, and the forms of each connection."""


cdef class AnnotatingPump:
    """The part of the pump that is about router annotations."""

    cdef native_pump p

    def sign(self, str router, bint edge):
        """How this router names itself on messages: ``area/id``. Edge routers do not (facts 3.1)."""
        cdef bytes name = b"" if edge else router.encode()
        if len(name) > ANNOTATIONS_ID_MAX:
            raise ValueError(f"the router's id has {len(name)} octets with its area; at most {ANNOTATIONS_ID_MAX} can be said to others")
        memcpy(self.p.identity.id, <const char *> name, len(name))
        self.p.identity.length = len(name)

    def digest(self, bint messages, bint transactions):
        """What the flow log wants to know of each message from now on."""
        self.p.digests = (DIGEST_MESSAGES if messages else 0) | (DIGEST_TRANSACTIONS if messages and transactions else 0)

    def connection_annotations(self, uint32_t index, uint8_t form, bint strip_in, bint strip_out):
        """The form (content.h, enum content_annotations) that messages carry on a connection, from now on.

        ``strip_in``: what its peer says of routing is ignored; ``strip_out``: nothing is said to it. A peer that
        speaks by message-annotations is heeded when it sends skrouterd's section, too (facts 3.2).
        """
        cdef wconn *c = <wconn *> pool_at(&self.p.conns, index)
        c.heeded = 0 if strip_in else annotations_form_bit(form)
        if not strip_in and form == ANNOTATIONS_MAP:
            c.heeded |= annotations_form_bit(ANNOTATIONS_SKUPPER)
        c.annotations = ANNOTATIONS_NONE if strip_out else form
