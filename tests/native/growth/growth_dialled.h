/* What the worker opens to a peer itself, for link-route pairs: sessions and links (growth_worker.c). */
#ifndef ROUTERD_TESTS_GROWTH_DIALLED_H
#define ROUTERD_TESTS_GROWTH_DIALLED_H

#include "tests/native/growth/growth_portions.h"

/* n sessions for link-route pairs, to a peer that has answered none of them; each is found again. */
static void dialled(uint32_t n)
{
    client k = client_new();
    utter(&k, false);
    worker_connection *c = (worker_connection *) pool_at(&world.p.conns, 0);
    counting = true;
    for (uint32_t i = 0; i < n; i++) CHECK(dial_session(c, ROUTED_SESSIONS + i, 0), "no session");
    counting = false;
    report("session_is_dialled", n);
    counting = true;
    for (uint32_t i = 0; i < n; i++) {
        const pn_session_t *found = dial_session(c, ROUTED_SESSIONS + shuffled(i, n), 0);
        CHECK(found && c->lane->session_count == n, "another session");
    }
    counting = false;
    report("dialled_session_is_found", n);
    client_goes(&k, false);
}

/* n links for link-route pairs of two clients, to a peer that answers nothing: each name is looked up before it is
 * used, while another link has it, and while the detach of that one has no answer. */
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
        CHECK((all[i] = dial_link(&world.p, c, session, 1 + i % 2, name, true)), "no link");
        share_take(all[i], 1 + i % 2, false, 0);
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

/* n links of as many clients share a session; messages of each wait while there is no core, and are taken then. */
static void held(uint32_t n)
{
    client k = client_with(n, false);
    for (uint32_t i = 0; i < n; i++) {
        worker_link *l = (worker_link *) pool_at(&world.p.links, world.links[i].index);
        share_enter(l, share_new(l->conn->lane, 1 + i));
        to_worker(W_FLOW, world.links[i])->credit = 2;
        turns(false);
    }
    forget_answers(&k);
    world.p.resting = true;
    for (uint32_t i = 0; i < 2 * n; i++) { say_transfer(&k, 0, i % n, i); utter(&k, true); }
    report("message_is_held", 2 * n);
    CHECK(!world.delivered_count && world.p.stalled_count == n, "%u messages come", world.delivered_count);
    const lane_connection *l = ((worker_connection *) pool_at(&world.p.conns, 0))->lane;
    CHECK(l->holding_first && l->sessions->seams == n - 1, "%u seams", l->sessions->seams);
    world.p.resting = false;
    world.p.freed = true;
    turns(true);
    report("held_message_is_taken", 2 * n);
    CHECK(world.delivered_count == 2 * n && !l->holding_first, "%u messages come", world.delivered_count);
    for (uint32_t i = 0; i < 2 * n; i++) { core_settles(i); turns(false); }
    client_goes(&k, false);
}

#endif
