/* Connections to other routers, as a worker's Python sees them (workers/control/opening.py, workers/loop/pump.pyx). */
#ifndef ROUTERD_TESTS_SIMULATION_WORKER_NEIGHBOURS_H
#define ROUTERD_TESTS_SIMULATION_WORKER_NEIGHBOURS_H

/* of links, as in core/interior/inter_router.py, and in the order of enum core_link_kind */
static const char *const capabilities[] = { NULL, "qd.router", "qd.router-data" };
enum { CONTROL_KIND = 1, DATA_KIND };

/* The router at the other end of a connection; 0: it is no router's. */
static uint8_t router_at(const worker_connection *c)
{
    const char *container = pn_connection_remote_container(c->engine);
    for (uint8_t i = 1; i <= network.neighbours && container; i++)
        if (!strcmp(container, (const char *) router_text(i))) return i;
    return 0;
}

static uint8_t kind_of(pn_terminus_t *t)
{
    pn_data_t *d = pn_terminus_capabilities(t);
    pn_data_rewind(d);
    if (!pn_data_next(d)) return 0;
    const pn_bytes_t name = pn_data_get_symbol(d);
    for (uint8_t i = CONTROL_KIND; i <= DATA_KIND; i++)
        if (name.size == strlen(capabilities[i]) && !memcmp(name.start, capabilities[i], name.size)) return i;
    return 0;
}

/* The form of annotations, of which each life has one with each neighbour. */
static void annotations_begin(worker_connection *c)
{
    const uint8_t router = router_at(c);
    if (!router) return;
    c->annotations = network.form[router];
    c->trusted = annotations_form_bit(network.form[router]);
    if (c->annotations == ANNOTATIONS_MAP) c->trusted |= annotations_form_bit(ANNOTATIONS_SKUPPER);
}

#endif
