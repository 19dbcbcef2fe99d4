/* What the forwarder calls of the planes that stand on it: route tables (core/rmr) and the flow log (core/flow_log).
 *
 * The tables hold pointers to their state, which is NULL while a plane is not in use; what it looks like only the plane
 * knows.
 */
#ifndef ROUTERD_CORE_PLANES_H
#define ROUTERD_CORE_PLANES_H

#include "core/forwarder/tables/access.h"

/* ---- route tables: core/rmr/forwarding/delivery.c, active_tables.c ---- */

PRIVATE bool routes_open(const core_routes *p);
PRIVATE void deliver_to_table(core_router *c, core_link *l, const routerd_record *r, core_address *a);
PRIVATE void deliver_by_table(core_router *c, core_in *in, core_address *a, uint8_t priority);
PRIVATE void deliver_on_table_link(core_router *c, core_link *l, const routerd_record *r);

/* ---- what the flight recorder has of them: core/rmr/forwarding/recorded.c ---- */

#define ROUTES_PART 16384u             /* octets of an entry at most */

typedef struct { uint32_t kind, at; } routes_cursor;   /* `kind`: of the last entry (enum flight_entry); 0: none yet */

PRIVATE bool routes_rest(const core_routes *p);
PRIVATE bool routes_fit(const core_routes *p);
PRIVATE uint64_t routes_lines(const core_routes *p);
GLUE uint64_t routes_mark(void);
PRIVATE uint32_t routes_part(const core_routes *p, routes_cursor *k, uint8_t *octets, uint32_t *length);

/* ---- the flow log: core/flow_log/flow_log.c ---- */

GLUE void flow_publish(core_flow *f);
PRIVATE void flow_note(core_router *c, const core_link *l, const core_in *in, const core_address *a, uint8_t priority,
                       const routerd_record *r);
PRIVATE void flow_piece(core_flow *f, const core_in *in);
PRIVATE void flow_by_table(core_router *c, const core_in *in, int32_t mtype, int32_t sub_id, uint64_t meid, bool owner);
PRIVATE void flow_copy(core_router *c, const core_out *out, uint32_t state, uint8_t arena, uint32_t detail);
PRIVATE void flow_drop(core_router *c, const core_in *in, const core_link *to, uint8_t outcome, uint32_t detail);
PRIVATE void flow_heard(core_flow *f, const routerd_record *r);

#endif
