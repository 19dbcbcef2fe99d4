/* Links whose ATTACH the engine has not written, and the handles of ours that links take.
 *
 * The engine falls silent for good if it has to write an ATTACH and the peer's handle-max leaves no handle.  So a
 * link takes a handle before the engine hears of it, and gives it back when its DETACH is written.  Before the peer's
 * BEGIN nobody knows how many there are: one link goes ahead, as the lowest handle is always allowed; others wait.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workers/session/session.h"

#define HANDLES_MOST 0xffffu           /* the engine counts to there, whatever the peer allows */

/* Whether a session has a handle for one more link, as far as is known. */
PRIVATE bool attach_room(const worker_session *s)
{
    return !s->begun_there || s->handles_taken <= (s->handle_most < HANDLES_MOST ? s->handle_most : HANDLES_MOST);
}

/* A peer's name for a refusal. */
PRIVATE const char *peer_called(const lane_connection *l)
{
    const char *peer = pn_connection_remote_container(l->c->engine);
    return peer && *peer && strlen(peer) < REFUSAL_ROOM / 4 ? peer : "the peer";
}

/* Says which limit of the peer leaves no room: for one more link in this session, or for a session (NULL). */
PRIVATE void attach_refusal(const lane_connection *l, const worker_session *s, char to[REFUSAL_ROOM])
{
    const char *text = s ? "%s takes no more than %u links in a session (handle-max), and has as many"
                         : "%s takes no more than %u sessions (channel-max), and has as many";
    const uint32_t highest = !s ? pn_transport_get_channel_max(l->transport)
                           : s->handle_most < HANDLES_MOST ? s->handle_most : HANDLES_MOST;
    snprintf(to, REFUSAL_ROOM, text, peer_called(l), highest + 1u);
}

static attach_due *attach_note(worker_link *k)
{
    worker_session *s = k->session;
    const char *name = pn_link_name(k->engine);
    size_t size = strlen(name);
    attach_due *a = (attach_due *) memory_for(NULL, sizeof *a + size);
    *a = (attach_due) { .link = k, .outgoing = k->outgoing, .size = (uint32_t) size };
    memcpy(a->name, name, size);
    a->previous = s->attach_last;
    *(a->previous ? &a->previous->next : &s->attach_first) = a;
    s->attach_last = a;
    return k->attach_due = a;
}

static void attach_remove(worker_session *s, attach_due *a)
{
    *(a->previous ? &a->previous->next : &s->attach_first) = a->next;
    *(a->next ? &a->next->previous : &s->attach_last) = a->previous;
    if (a->link) a->link->attach_due = NULL;
    free(a);
}

/* A peer's link takes a handle, for the answer. */
PRIVATE void attach_wait(worker_link *k)
{
    attach_note(k);
    k->session->handles_taken++;
}

static void attach_begin(worker_link *k)
{
    k->session->handles_taken++;
    pn_link_open(k->engine);
}

/* Attaches a link of ours, at once or when the peer has answered its session's BEGIN. */
PRIVATE void attach_ask(worker_link *k)
{
    const worker_session *s = k->session;
    attach_due *a = attach_note(k);
    a->unbegun = !s->begun_there && s->handles_taken;
    if (!a->unbegun) attach_begin(k);
}

/* Whether a link's ATTACH still waits for its session's BEGIN, so that the engine must not hear of its end either. */
PRIVATE bool attach_unbegun(const worker_link *k) { return k->attach_due && k->attach_due->unbegun; }

/* A link goes.  Its ATTACH goes with it, unless the engine has heard of that: then it writes it in any case. */
PRIVATE void attach_gone(worker_link *k)
{
    attach_due *a = k->attach_due;
    if (!a) return;
    if (a->unbegun) attach_remove(k->session, a);
    else a->link = NULL;
}

static void attach_refuse(worker_link *k)
{
    char why[REFUSAL_ROOM];
    pn_condition_t *error = pn_link_condition(k->engine);
    attach_refusal(k->conn->lane, k->session, why);
    pn_condition_set_name(error, "amqp:resource-limit-exceeded");
    pn_condition_set_description(error, why);
    dial_forget(k->conn->lane->p, k);
}

/* The peer has answered a session's BEGIN: links that waited for that are attached, or refused without a handle. */
PRIVATE void attach_answered(worker_session *s)
{
    for (attach_due *a = s->attach_first, *next; a; a = next) {
        worker_link *k = a->link;
        next = a->next;
        if (!a->unbegun) continue;
        a->unbegun = false;
        if (attach_room(s)) { attach_begin(k); continue; }
        attach_remove(s, a);
        attach_refuse(k);
    }
    mark_dirty(s->connection->p, s->connection->c);
}

/* The link of an ATTACH that the engine writes; NULL: one that has gone, or was refused at once, and takes its handle
 * now.  The engine writes those of one name in their order. */
PRIVATE worker_link *attach_served(worker_session *s, const lane_attach *said)
{
    size_t size = said->name.size;
    attach_due *a = s->attach_first;
    while (a && (a->unbegun || a->outgoing == said->receiver || a->size != size
                 || memcmp(a->name, said->name.at, size)))
        a = a->next;
    if (!a) { s->handles_taken++; return NULL; }
    worker_link *k = a->link;
    attach_remove(s, a);
    return k;
}
