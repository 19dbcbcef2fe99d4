/* The worker's turn: waiting, work records, the begin and end of connections, and a core's death. */
#ifndef ROUTERD_WORKERS_LOOP_H
#define ROUTERD_WORKERS_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "shm/record.h"
#include "shm/ring.h"
#include "shm/unity.h"
#include "workers/state/engine.h"
#include "workers/state/pump.h"

#define EPOLL_BATCH 64

/* times.c */
PRIVATE uint64_t link_starved(const pump *p, const wlink *k);
PRIVATE void out_begun(const pump *p, wlink *k, wout *o);
PRIVATE void out_times(const wout *o, routerd_record *r);

/* wait.c */
PRIVATE int turn_wait(pump *p, struct epoll_event *events, int timeout);

/* dial.c */
GLUE wlistener *dial_place(pump *p);
GLUE wconn *dial(pump *p, int fd, uint16_t place, const char *hostname, const char *user, const char *password);
PRIVATE void dial_failed(wconn *c);
PRIVATE bool session_ours(pn_session_t *session);
GLUE pn_session_t *dial_session(wconn *c, uint32_t number);
GLUE bool dial_taken(wconn *c, uint32_t number, const char *name, bool outgoing);
PRIVATE void dial_done(pump *p, wconn *c, pn_session_t *session);

/* poll.c */
GLUE void look_at_all(pump *p, uint64_t now);
GLUE void look_links(pump *p, const char *asked, size_t count, uint64_t now, char *seen);

/* work.c */
PRIVATE void intake_flow(pump *p, wlink *k);
PRIVATE void work_unstall(pump *p);
PRIVATE bool work_turn(pump *p);

/* resync.c */
GLUE void pump_leave(pump *p);
GLUE bool pump_return(pump *p, routerd_ring *actions, routerd_ring *work);
GLUE int32_t away_credit(wlink *k);
GLUE void away_told(pump *p, wlink *k);
GLUE void pump_present(pump *p);

/* loop.c */
GLUE wlink *link_new(pump *p, wconn *c, pn_link_t *engine);
GLUE void link_free(pump *p, wlink *k);
GLUE void link_lost(pump *p, wlink *k, int event);
GLUE bool terminus_there(pn_terminus_t *t);
GLUE void pump_run(pump *p, int64_t until);

#endif
