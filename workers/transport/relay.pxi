"""SASL exchanges that an authentication service or Cyrus SASL decides (relay.c), for workers.control."""


cdef str fault_of_open(pn_connection_t *engine):
    """Return what is malformed in a service's OPEN; empty if nothing is. The engine reads such fields as absent."""
    cdef pn_data_t *d = pn_connection_remote_properties(engine)
    if pn_connection_remote_container(engine) == NULL:
        return "its OPEN has no container-id"
    pn_data_rewind(d)
    if pn_data_next(d) and pn_data_type(d) not in (PN_MAP, PN_NULL):
        return "its OPEN has properties that are no map"
    return ""


cdef bint relay_dispatch(Pump pump, int event, uint32_t index, worker_connection *c) except -1:
    """Pass an event of a client or of a connection to a service; return False if the pump handles it as usual."""
    if event == EV_RELAY and c.relay.local:
        said = c.relay.client.start[:c.relay.client.size] if c.relay.client.start != NULL else b""
        pump.relays.logins.said((index, c.slot.generation), text(c.relay.mechanism), said)
        return True
    if event == EV_RELAY:
        pump.relays.wanted((index, c.slot.generation), pump.p.listeners[c.listener].config)
        return True
    if event == EV_TRACE:
        return False
    if not c.dialled:
        if event == EV_CONNECTION_GONE:
            pump.relays.left((index, c.slot.generation))
        return False
    if event == EV_CONNECTION_OPEN:
        pump.relays.opened((index, c.slot.generation), fault_of_open(c.engine),
                           properties_of(pn_connection_remote_properties(c.engine)),
                           symbols(pn_connection_remote_offered_capabilities(c.engine)))
    elif event == EV_CONNECTION_GONE:
        pump.relays.ended((index, c.slot.generation), c.relay.state == RELAY_DECIDED, c.relay.faulty, text(c.relay.why),
                          condition(pn_transport_condition(c.transport)))
    elif event == EV_CONNECTION_CLOSE:
        close_connection(pump, c, None)
    return True


cdef class Relayer(PumpPart):
    """The native side of one pump's SASL relays.

    The pump calls the handler's ``wanted(client, listener)`` and ``left(client)``, and for the connection to a service
    ``opened(name, fault of its OPEN, properties, offered capabilities)`` and ``ended(name, decided, by the client's
    fault, why, error)``.
    """

    def serve(self, handler):
        """Call this handler for clients and services."""
        self.pump.relays = handler

    def relay(self, int place, bint on):
        """Set whether a service authenticates new clients of a listener's place."""
        self.pump.listener(place).relays = on

    cdef relay *of(self, uint32_t index, uint32_t generation):
        cdef worker_connection *c = <worker_connection *> pool_find2(&self.pump.p.conns, index, generation)
        return NULL if c == NULL else c.relay

    def offer(self, int place, str mechanisms):
        """Offer these mechanisms to new clients of a listener's place; the engine serves its own if there are none.

        The pump calls the logins' ``said(client, mechanism, bytes)``.
        """
        cdef bytes b = mechanisms.encode()
        if len(b) >= 256:
            raise ValueError("the list of SASL mechanisms is longer than 255 characters")
        strncpy(self.pump.listener(place).offered, b, 255)

    def wake_by(self, int fd):
        """Let `Pump.run` return when this descriptor becomes readable."""
        cdef epoll_event e
        e.events = EPOLLIN
        e.data.u64 = <uint64_t> EPOLL_WAKE << 60
        if epoll_ctl(self.pump.p.epoll_fd, EPOLL_CTL_ADD, fd, &e) != 0:
            raise OSError(f"epoll_ctl failed for descriptor {fd}")

    def waiting(self, uint32_t index, uint32_t generation):
        """Return whether a client is there and its exchange is undecided."""
        cdef relay *r = self.of(index, generation)
        return r != NULL and r.state != RELAY_DECIDED

    def dial(self, int place, int fd, tuple client, service, str container, dict properties):
        """Take over a socket that is connecting to a service (a ServiceSetup) for a client.

        Returns the connection's index and generation, or None if the client is gone or there is no room.
        """
        cdef relay *r = self.of(client[0], client[1])
        cdef bytes h = service.host.encode()
        cdef bytes realm_bytes = service.realm.encode()
        cdef bytes b = container.encode()
        cdef worker_connection *c = NULL if r == NULL else dial(&self.pump.p, fd, place, h, b"", b"")
        if c == NULL:
            return None
        relay_dialled(r, c, realm_bytes)
        pn_connection_set_container(c.engine, b)
        put_symbols(pn_connection_desired_capabilities(c.engine), ["ADDRESS-AUTHZ"])
        put_map(pn_connection_properties(c.engine), properties, True)
        pn_connection_open(c.engine)
        return pool_index(&self.pump.p.conns, c), c.slot.generation

    def admit(self, uint32_t index, uint32_t generation, str user):
        """Accept a client as this user."""
        cdef relay *r = self.of(index, generation)
        cdef bytes u = user.encode()
        if r != NULL:
            relay_admit(r, u)

    def challenge(self, uint32_t index, uint32_t generation, bytes said):
        """Send a sasl-challenge to a client."""
        cdef relay *r = self.of(index, generation)
        if r != NULL:
            relay_question(r, said, len(said))

    def deny(self, uint32_t index, uint32_t generation):
        """Refuse a client whose credentials are wrong."""
        cdef relay *r = self.of(index, generation)
        if r != NULL:
            relay_refuse(r, PN_SASL_AUTH, NULL)

    def refuse(self, uint32_t index, uint32_t generation, bint for_now):
        """Refuse a client for lack of a decision; it may try again if that is ``for_now``."""
        cdef relay *r = self.of(index, generation)
        if r != NULL:
            relay_refuse(r, PN_SASL_TEMP if for_now else PN_SASL_SYS, NULL)

    def hang_up(self, uint32_t index, uint32_t generation):
        """Close the connection to a service."""
        close_connection(self.pump, <worker_connection *> pool_find2(&self.pump.p.conns, index, generation), None)
