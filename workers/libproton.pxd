"""The AMQP engine's functions that the glue calls; engine.h declares them for C."""

cdef extern from "engine.h" nogil:
    ctypedef struct pn_connection_t:
        pass
    ctypedef struct pn_transport_t:
        pass
    ctypedef struct pn_link_t:
        pass
    ctypedef struct pn_terminus_t:
        pass
    ctypedef struct pn_condition_t:
        pass
    ctypedef struct pn_collector_t:
        pass
    ctypedef struct pn_sasl_t:
        pass
    ctypedef struct pn_data_t:
        pass
    ctypedef struct pn_bytes_t:
        size_t size
        const char *start
    int PN_SYMBOL, PN_STRING, PN_ARRAY, PN_MAP, PN_COORDINATOR
    pn_collector_t *pn_collector()
    const char *pn_connection_remote_container(pn_connection_t *)
    const char *pn_connection_remote_hostname(pn_connection_t *)
    pn_data_t *pn_connection_remote_properties(pn_connection_t *)
    pn_data_t *pn_connection_properties(pn_connection_t *)
    pn_data_t *pn_connection_offered_capabilities(pn_connection_t *)
    pn_condition_t *pn_connection_condition(pn_connection_t *)
    pn_condition_t *pn_connection_remote_condition(pn_connection_t *)
    void pn_connection_set_container(pn_connection_t *, const char *)
    void pn_connection_open(pn_connection_t *)
    void pn_connection_close(pn_connection_t *)
    pn_condition_t *pn_transport_condition(pn_transport_t *)
    const char *pn_transport_get_user(pn_transport_t *)
    pn_sasl_t *pn_sasl(pn_transport_t *)
    const char *pn_sasl_get_mech(pn_sasl_t *)
    void pn_link_open(pn_link_t *)
    void pn_link_close(pn_link_t *)
    const char *pn_link_name(pn_link_t *)
    pn_terminus_t *pn_link_source(pn_link_t *)
    pn_terminus_t *pn_link_target(pn_link_t *)
    pn_terminus_t *pn_link_remote_source(pn_link_t *)
    pn_terminus_t *pn_link_remote_target(pn_link_t *)
    pn_condition_t *pn_link_condition(pn_link_t *)
    pn_condition_t *pn_link_remote_condition(pn_link_t *)
    int pn_link_remote_snd_settle_mode(pn_link_t *)
    int pn_link_remote_rcv_settle_mode(pn_link_t *)
    void pn_link_set_snd_settle_mode(pn_link_t *, int)
    void pn_link_set_rcv_settle_mode(pn_link_t *, int)
    bint pn_terminus_is_dynamic(pn_terminus_t *)
    const char *pn_terminus_get_address(pn_terminus_t *)
    int pn_terminus_set_address(pn_terminus_t *, const char *)
    int pn_terminus_get_type(pn_terminus_t *)
    int pn_terminus_copy(pn_terminus_t *, pn_terminus_t *)
    pn_data_t *pn_terminus_capabilities(pn_terminus_t *)
    bint pn_condition_is_set(pn_condition_t *)
    const char *pn_condition_get_name(pn_condition_t *)
    const char *pn_condition_get_description(pn_condition_t *)
    int pn_condition_set_name(pn_condition_t *, const char *)
    int pn_condition_set_description(pn_condition_t *, const char *)
    void pn_data_clear(pn_data_t *)
    void pn_data_rewind(pn_data_t *)
    bint pn_data_next(pn_data_t *)
    bint pn_data_enter(pn_data_t *)
    bint pn_data_exit(pn_data_t *)
    int pn_data_type(pn_data_t *)
    pn_bytes_t pn_data_get_bytes(pn_data_t *)
    int pn_data_put_map(pn_data_t *)
    int pn_data_put_array(pn_data_t *, bint, int)
    int pn_data_put_symbol(pn_data_t *, pn_bytes_t)
    int pn_data_put_string(pn_data_t *, pn_bytes_t)
    int pn_data_put_int(pn_data_t *, int)
