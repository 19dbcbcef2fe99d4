/* Links whose ATTACH the engine has not written. */
#include <stdlib.h>
#include <string.h>

#include "workers/session/session.h"

PRIVATE void attach_wait(worker_link *k)
{
    worker_session *s = k->session;
    const char *name = pn_link_name(k->engine);
    size_t size = strlen(name);
    attach_due *a = (attach_due *) memory_for(NULL, sizeof *a + size);
    *a = (attach_due) { .link = k, .outgoing = k->outgoing, .size = (uint32_t) size };
    memcpy(a->name, name, size);
    if (s->attach_last) s->attach_last->next = a;
    else s->attach_first = a;
    s->attach_last = a;
    k->attach_due = a;
}

/* The link of an ATTACH that the engine writes; NULL: one that has gone, or was refused at once.  The engine writes
 * those of one name in their order. */
PRIVATE worker_link *attach_served(worker_session *s, const lane_attach *said)
{
    size_t size = said->name.size;
    attach_due *before = NULL, *a = s->attach_first;
    while (a && (a->outgoing == said->receiver || a->size != size || memcmp(a->name, said->name.at, size))) {
        before = a;
        a = a->next;
    }
    if (!a) return NULL;
    worker_link *k = a->link;
    *(before ? &before->next : &s->attach_first) = a->next;
    if (s->attach_last == a) s->attach_last = before;
    if (k) k->attach_due = NULL;
    free(a);
    return k;
}
