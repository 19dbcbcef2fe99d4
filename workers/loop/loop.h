/* The worker's turn: waiting, work records, the begin and end of connections, and a core's death. */
#ifndef ROUTERD_WORKERS_LOOP_H
#define ROUTERD_WORKERS_LOOP_H

#include <sys/epoll.h>

#include "shm/unity.h"
#include "workers/session/session.h"

#define EPOLL_BATCH 64

/* wait.c */
PRIVATE int turn_wait(pump *p, struct epoll_event *events, int timeout);

/* dial.c */
GLUE worker_listener *dial_place(pump *p);
GLUE worker_connection *dial(pump *p, int fd, uint16_t place, const char *hostname, const char *user,
                             const char *password);
PRIVATE void dial_failed(worker_connection *c);
PRIVATE bool session_router_initiated(pn_session_t *session);
GLUE enum name_state dial_taken(worker_connection *c, const char *name, bool outgoing);
GLUE bool dial_refused(const worker_connection *c, uint32_t number, uint32_t client, char why[REFUSAL_ROOM]);
GLUE worker_link *dial_link(pump *p, worker_connection *c, uint32_t number, uint32_t client, const char *name,
                            bool outgoing);
GLUE void dial_attach(pump *p, worker_link *k);
GLUE void dial_unask(pump *p, worker_link *k);
PRIVATE void dial_done(worker_connection *c, pn_session_t *session);
PRIVATE void dial_answered(pn_session_t *session);

/* poll.c */
GLUE void poll_all_links(pump *p, uint64_t now);
GLUE void poll_links(pump *p, const char *asked, size_t count, uint64_t now, char *seen);

/* reads.c */
PRIVATE void reads_begin(pump *p, int events, uint64_t now);
PRIVATE void reads_serve(pump *p, worker_connection *c);

/* memory.c */
PRIVATE void memory_poll(pump *p);

/* work.c */
PRIVATE bool work_unstalls(const pump *p);
PRIVATE void work_unstall(pump *p);
PRIVATE bool work_turn(pump *p);

/* resync.c */
GLUE void pump_leave(pump *p, bool died);
GLUE bool pump_return(pump *p, routerd_ring *actions, routerd_ring *work);
GLUE int32_t resync_credit(worker_link *k);
GLUE void resync_link(pump *p, worker_link *k);
GLUE void pump_present(pump *p);

/* ends.c */
PRIVATE void ending_add(pump *p, worker_connection *c);
PRIVATE void ending_serve(pump *p);

/* loop.c */
GLUE worker_link *link_new(pump *p, worker_connection *c, pn_link_t *engine);
GLUE void link_free(pump *p, worker_link *k);
GLUE bool terminus_there(pn_terminus_t *t);
GLUE void pump_run(pump *p, int64_t until);

#endif
