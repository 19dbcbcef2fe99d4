/* What the worker opens to a peer itself, for link-route pairs: sessions and links (growth_worker.c). */
#ifndef ROUTERD_TESTS_GROWTH_DIALLED_H
#define ROUTERD_TESTS_GROWTH_DIALLED_H

#include "tests/native/growth/growth_world.h"

/* n sessions for link-route pairs, to a peer that has answered none of them; each is found again. */
static void dialled(uint32_t n)
{
    client k = client_new();
    utter(&k, false);
    worker_connection *c = (worker_connection *) pool_at(&world.p.conns, 0);
    counting = true;
    for (uint32_t i = 0; i < n; i++) CHECK(dial_session(c, ROUTED_SESSIONS + i), "no session");
    counting = false;
    report("session_is_dialled", n);
    counting = true;
    for (uint32_t i = 0; i < n; i++) {
        const pn_session_t *found = dial_session(c, ROUTED_SESSIONS + shuffled(i, n));
        CHECK(found && c->lane->session_count == n, "another session");
    }
    counting = false;
    report("dialled_session_is_found", n);
    client_goes(&k, false);
}

/* n links for link-route pairs, to a peer that answers nothing: each name is looked up before it is used, while another
 * link has it, and while the detach of that one has no answer. */
static void named(uint32_t n)
{
    enum { OF_A_SESSION = 16 };
    char name[16];
    client k = client_new();
    utter(&k, false);
    worker_connection *c = (worker_connection *) pool_at(&world.p.conns, 0);
    worker_link **all = (worker_link **) calloc(n, sizeof *all);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t session = ROUTED_SESSIONS + i / OF_A_SESSION;
        snprintf(name, sizeof name, "l%u", i);
        counting = true;
        CHECK(dial_taken(c, name, true) == NAME_FREE, "%s is taken", name);
        CHECK((all[i] = dial_link(&world.p, c, session, name, true)), "no link");
        CHECK(dial_taken(c, name, true) == NAME_LIVE && dial_taken(c, name, false) == NAME_FREE,
              "%s is not taken", name);
        counting = false;
    }
    report("link_is_dialled", n);
    for (uint32_t j = 0; j < n; j++) {
        const uint32_t i = shuffled(j, n);
        snprintf(name, sizeof name, "l%u", i);
        counting = true;
        link_free(&world.p, all[i]);
        CHECK(dial_taken(c, name, true) == NAME_ENDS, "%s does not wait", name);
        counting = false;
    }
    report("dialled_link_goes", n);
    CHECK(c->lane->names.count == 2 * n, "%u names", c->lane->names.count);
    client_goes(&k, false);
    free(all);
}

#endif
