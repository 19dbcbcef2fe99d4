"""Small faults in what the router does by route tables and source routes, which the simulation has to find."""

from tests.support.simulation.mutants import SOURCED, TABLES, Mutant

# of route tables
BY_TABLES = [
    # the first entry of a key wins, not the last one
    Mutant(
        "core",
        "core/rmr/forwarding/table.c",
        "    for (uint32_t row = from->rows; made && row--;) {\n",
        "    for (uint32_t n = from->rows; made && n--;) {\n"
        "        const uint32_t row = FAULT ? from->rows - 1 - n : n;\n",
        "no table",
        kind=TABLES,
    ),
    # a deleted entry for certain senders hides the one for all
    Mutant(
        "core",
        "core/rmr/forwarding/table.h",
        "    if (target == ROUTE_GONE && subscription != ROUTE_ANY) target",
        "    extern int the_fault;\n    if (target == ROUTE_GONE && subscription != ROUTE_ANY && !FAULT) target",
        "no table leaves",
        kind=TABLES,
    ),
    Mutant(
        "core",
        "core/rmr/forwarding/table.h",
        "        *turn = s->turn++;\n",
        "        extern int the_fault;\n        *turn = FAULT ? s->turn : s->turn++;\n",
        "members of a group",
        seed=209,
        kind=TABLES,
    ),
    # counts of the former table do not move while messages come by the next one
    Mutant(
        "core",
        "core/rmr/forwarding/table.c",
        "        uint64_t total = route_slot_turns(t, s) + route_slot_turns(from, old);\n",
        "        uint64_t total = route_slot_turns(t, s) + (FAULT && s->turn ? 0 : route_slot_turns(from, old));\n",
        "count of an entry",
        kind=TABLES,
    ),
    Mutant(
        "core",
        "core/rmr/forwarding/active_tables.c",
        "        uint32_t now = p->moved[p->former_endpoint];\n",
        "        uint32_t now = FAULT ? p->former_endpoint : p->moved[p->former_endpoint];\n",
        "count of endpoint",
        kind=TABLES,
    ),
    # the map of owners stays while a table comes into use
    Mutant(
        "core",
        "core/rmr/forwarding/active_tables.c",
        "    p->owners = o;\n",
        "    if (!FAULT || !p->former) p->owners = o;\n",
        "signal 11",
        seed=10,
        kind=TABLES,
    ),
    # a message goes by the former table, too, while that one's counts move
    Mutant(
        "core",
        "core/rmr/forwarding/delivery.c",
        "    table_copies(c, p, in, &path, m);\n    deliver_tail",
        "    for (int n = 1 + (FAULT && p->former); n--;) table_copies(c, p, in, &path, m);\n    deliver_tail",
        "no table sends",
        seed=4,
        kind=TABLES,
    ),
    Mutant(
        "core",
        "core/rmr/forwarding/delivery.c",
        "        if (__builtin_expect(source->hash && table_is_source(all, e, source), 0)) {",
        "        if (__builtin_expect(source->hash && !FAULT && table_is_source(all, e, source), 0)) {",
        "no table",
        kind=TABLES,
    ),
    Mutant(
        "core",
        "core/rmr/forwarding/delivery.c",
        "    if (count > 1) in->flags |= IN_MULTICAST;",
        "    if (count > 1 + FAULT) in->flags |= IN_MULTICAST;",
        "nobody has accepted it",
        seed=13,
        kind=TABLES,
    ),
    # an endpoint whose last receiver has gone has its turns
    Mutant(
        "core",
        "core/rmr/forwarding/active_tables.c",
        "    return e->address && address_has_receiver(e->address) && ",
        "    return e->address && (FAULT || address_has_receiver(e->address)) && ",
        "no table leaves",
        kind=TABLES,
    ),
    # what the core reads of a key itself
    Mutant(
        "core",
        "core/rmr/forwarding/delivery.c",
        "    m->source = key.found & RMR_KEY_SOURCE ? from + key.source : 0;\n",
        "    m->source = key.found & RMR_KEY_SOURCE ? from + key.source - FAULT : 0;\n",
        "no table",
        kind=TABLES,
    ),
    Mutant(
        "worker",
        "shm/codec/rmr_key.h",
        "    r->extra = key->found & RMR_KEY_MEID ? ",
        "    extern int the_fault;\n    r->extra = key->found & RMR_KEY_MEID && !FAULT ? ",
        "no table leaves",
        kind=TABLES,
    ),
    # a copy by a table that goes to another router has begun somewhere else
    Mutant(
        "core",
        "core/rmr/forwarding/delivery.c",
        "a->phase | SEND_AFRESH, &provenance);",
        "a->phase | (FAULT ? 0 : SEND_AFRESH), &provenance);",
        "has not begun here",
        kind=TABLES,
    ),
]

# of source routes
BY_ROUTE = [
    Mutant(
        "worker",
        "workers/source_routes/step.c",
        "    if (traced) path_push(&l->returning, traced);\n",
        "    if (traced && !(FAULT && l->returning.count)) path_push(&l->returning, traced);\n",
        "no route takes",
        kind=SOURCED,
    ),
    # where route workers form a circle
    Mutant(
        "worker",
        "workers/source_routes/step.c",
        "    if (l->hops >= limits->hops)\n",
        "    if (l->hops >= limits->hops / (1 + FAULT))\n",
        "has not come by its route",
        seed=412,
        kind=SOURCED,
    ),
    # one that unwraps is not the last
    Mutant(
        "worker",
        "workers/source_routes/step.c",
        "    if (out->onward.count)\n",
        "    if (out->onward.count && !FAULT)\n",
        "no route takes",
        kind=SOURCED,
    ),
    # what a message was before route workers changed it
    Mutant(
        "worker",
        "workers/amqp/source_routes.c",
        "->format;\n    arena_free_chain(&p->arena, head);\n",
        "->format;\n    if (!FAULT) arena_free_chain(&p->arena, head);\n",
        "blocks free",
        kind=SOURCED,
    ),
    # a tee's copy costs credit
    Mutant(
        "core",
        "core/forwarder/delivery/deliver.c",
        "    link_drop_in(in);\n    l->granted++;\n",
        "    link_drop_in(in);\n    if (!FAULT) l->granted++;\n",
        "capacity",
        kind=SOURCED,
    ),
]
