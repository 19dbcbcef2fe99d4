/* How the work of a worker grows with what a peer may make many: the steps (growth.h) of one operation with n
 * connections, sessions, links and deliveries.  The AMQP engine's own steps do not count.
 *
 * Argument: n.  Output: a line for each scenario, with its name and the steps of one operation.
 */
#define _GNU_SOURCE
#include "tests/native/growth/growth_dialled.h"
#include "tests/native/growth/growth_portions.h"
#include "tests/native/growth/growth_routes.h"
#include "tests/native/growth/growth_world.h"

static void grant(uint32_t link, uint32_t credit) { to_worker(W_FLOW, world.links[link])->credit = credit; }

static void connections(uint32_t n)
{
    client *all = (client *) calloc(n, sizeof *all), last;
    for (uint32_t i = 0; i < n; i++) {
        counting = true;
        all[i] = client_new();
        counting = false;
        say_begin(&all[i], 0, WIDE);
        say_attach(&all[i], 0, 0, false);
        utter(&all[i], true);
    }
    report("connection_begins", n);
    listener_comes();
    for (uint32_t i = 0; i < n; i++) { grant(i, 1); turns(false); }
    for (uint32_t i = 0; i < n; i++) {
        client *k = &all[shuffled(i, n)];
        forget_answers(k);
        say_transfer(k, 0, 0, 0);
        utter(k, true);
    }
    report("message_of_a_connection", n);
    CHECK(world.delivered_count == n, "%u messages", world.delivered_count);
    last = all[n - 1];
    for (uint32_t i = 0; i < n - 1; i++) {
        client *k = &all[shuffled(i, n - 1)];
        close(k->fd);
        free(k->said);
        turns(true);
    }
    report("connection_goes", n - 1);
    client_goes(&last, false);
    CHECK(!world.p.conns.used, "%u connections are left", world.p.conns.used);
    free(all);
}

static void connections_together(uint32_t n)
{
    client *all = (client *) calloc(n, sizeof *all);
    for (uint32_t i = 0; i < n; i++) {
        all[i] = client_new();
        utter(&all[i], false);
    }
    for (uint32_t i = 0; i < n; i++) { close(all[i].fd); free(all[i].said); }
    turns(true);
    report("connections_go_together", n);
    CHECK(!world.p.conns.used, "%u connections are left", world.p.conns.used);
    free(all);
}

static void sessions(uint32_t n)
{
    client k = client_new();
    utter(&k, false);
    for (uint32_t i = 0; i < n; i++) { say_begin(&k, (uint16_t) i, WIDE); utter(&k, true); }
    report("session_begins", n);
    world.link_count = world.delivered_count = 0;
    for (uint32_t i = 0; i < n; i++) { say_attach(&k, (uint16_t) i, 0, false); utter(&k, true); }
    report("attach_in_a_session", n);
    for (uint32_t i = 0; i < n; i++) { grant(i, 1); turns(false); }
    forget_answers(&k);
    for (uint32_t i = 0; i < n; i++) { say_transfer(&k, (uint16_t) shuffled(i, n), 0, 0); utter(&k, true); }
    report("message_of_a_session", n);
    CHECK(world.delivered_count == n, "%u messages", world.delivered_count);
    for (uint32_t i = 0; i < n / 2; i++) {
        say_end(&k, (uint16_t) (shuffled(i, n / 2) * 2), 0, LANE_END);
        utter(&k, true);
    }
    report("session_ends", n / 2);
    client_goes(&k, true);
    report("connection_goes_per_session", n - n / 2);
}

static void links(uint32_t n)
{
    client k = client_with(0, false);
    for (uint32_t i = 0; i < n; i++) { say_attach(&k, 0, i * 5, i % 2); utter(&k, true); }
    report("attach", n);
    for (uint32_t i = 0; i < n; i++) { say_flow(&k, 0, (shuffled(i, n) & ~1u) * 5 + 5, 1, WIDE); utter(&k, true); }
    report("credit_of_a_link", n);
    for (uint32_t i = 0; i < n; i++) { say_end(&k, 0, shuffled(i, n) * 5, LANE_DETACH); utter(&k, true); }
    report("detach", n);
    CHECK(!world.p.links.used, "%u links are left", world.p.links.used);
    client_goes(&k, true);
    steps = 0;
    k = client_with(n, true);
    say_end(&k, 0, 0, LANE_END);
    utter(&k, true);
    report("session_ends_per_link", n);
    client_goes(&k, false);
    k = client_with(n, false);
    client_goes(&k, true);
    report("connection_goes_per_link", n);
}

/* n messages that wait for the core, of one link or of as many links; settled in no order, or by their sender. */
static void incoming(uint32_t n, bool of_one_link, const char *const names[4])
{
    client k = client_with(of_one_link ? 1 : n, false);
    for (uint32_t i = 0; i < world.link_count; i++) { grant(i, of_one_link ? 3 * n : 3); turns(false); }
    forget_answers(&k);
    for (uint32_t round = 0; round < 3; round++) {
        world.delivered_count = 0;
        for (uint32_t i = 0; i < n; i++) { say_transfer(&k, 0, of_one_link ? 0 : i, round * n + i); utter(&k, true); }
        CHECK(world.delivered_count == n, "%u messages", world.delivered_count);
        if (!round) report(names[0], n);
        steps = 0;
        for (uint32_t i = 0; i < n && !round; i++) { core_settles(shuffled(i, n)); turns(true); }
        if (!round) report(names[1], n);
        for (uint32_t i = 0; i < n && round == 1; i++) {
            say_disposition(&k, n + shuffled(i, n), n + shuffled(i, n), false);
            utter(&k, true);
        }
        if (round == 1) report(names[2], n);
        for (uint32_t i = 0; i < n && round == 1; i++) { core_settles(i); turns(false); }
    }
    client_goes(&k, true);
    report(names[3], n);
    for (uint32_t i = 0; i < n; i++) { core_settles(i); turns(false); }
    CHECK(!world.p.ins.used, "%u deliveries are left", world.p.ins.used);
}

/* n messages of one receiver, or of as many; settled in no order, all at once, or by nobody. */
static void outgoing(uint32_t n, bool of_one_link, const char *const names[4])
{
    client from, k;
    const routerd_record m = message(&from);
    k = client_with(of_one_link ? 1 : n, true);
    for (uint32_t i = 0; i < world.link_count; i++) {
        say_flow(&k, 0, i, of_one_link ? 4 * n : 4, WIDE);
        utter(&k, false);
    }
    for (uint32_t round = 0; round < 3; round++) {
        uint32_t first = round * n, before = world.heard;
        for (uint32_t i = 0; i < n; i++) {
            core_sends(&m, of_one_link ? 0 : i, first + i + 1);
            turns(true);
            forget_answers(&k);
        }
        if (!round) report(names[0], n);
        steps = 0;
        for (uint32_t i = 0; i < n && !round; i++) {
            say_disposition(&k, first + shuffled(i, n), first + shuffled(i, n), true);
            utter(&k, true);
        }
        if (!round) report(names[1], n);
        if (round == 1) { say_disposition(&k, first, first + n - 1, true); utter(&k, true); report(names[2], n); }
        CHECK(round == 2 || world.heard - before >= n, "%u actions", world.heard - before);
    }
    CHECK(world.p.outs.used == n, "%u deliveries", world.p.outs.used);
    if (of_one_link) { say_end(&k, 0, 0, LANE_DETACH); utter(&k, true); }
    else client_goes(&k, true);
    report(names[3], n);
    CHECK(!world.p.outs.used, "%u deliveries are left", world.p.outs.used);
    if (of_one_link) client_goes(&k, false);
    client_goes(&from, false);
}

enum { REPEATS = 3000 };               /* DISPOSITIONs */

/* A receiver repeats a state of n deliveries, also of some of them; then it alternates between two, and goes. */
static void repeated(uint32_t n)
{
    client from, k;
    const routerd_record m = message(&from);
    k = client_with(1, true);
    say_flow(&k, 0, 0, n, WIDE);
    utter(&k, false);
    for (uint32_t i = 0; i < n; i++) { core_sends(&m, 0, i + 1); turns(false); forget_answers(&k); }
    for (uint32_t i = 0; i < 2; i++) { say_state(&k, 0, n - 1, LANE_ACCEPTED); utter(&k, false); }
    for (uint32_t i = 0; i < REPEATS; i++) { say_state(&k, i % 3, WIDE, LANE_ACCEPTED); utter(&k, true); }
    report("receiver_repeats_a_state", REPEATS);
    for (uint32_t i = 0; i < REPEATS; i++) say_state(&k, 0, n - 1, i & 1 ? LANE_ACCEPTED : LANE_RELEASED);
    CHECK(write_said(&k), "the socket takes less");
    const uint32_t before = world.heard;
    shutdown(k.fd, SHUT_WR);
    turns(true);
    report("receiver_repeats_two_states_and_goes", REPEATS);
    CHECK(!world.p.outs.used, "%u deliveries are left", world.p.outs.used);
    CHECK(world.heard - before >= n, "%u actions", world.heard - before);
    client_goes(&k, false);
    client_goes(&from, false);
}

/* n messages for receivers without credit, which then have it. */
static void waiting(uint32_t n, bool of_one_link, const char *const names[2])
{
    client from, k;
    const routerd_record m = message(&from);
    k = client_with(of_one_link ? 1 : n, true);
    for (uint32_t i = 0; i < n; i++) { core_sends(&m, of_one_link ? 0 : i, i + 1); turns(true); }
    report(names[0], n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t link = of_one_link ? 0 : shuffled(i, n);
        say_flow(&k, 0, link, of_one_link ? i + 1 : 1, WIDE);
        utter(&k, true);
    }
    report(names[1], n);
    client_goes(&k, false);
    client_goes(&from, false);
}

/* n messages for a receiver without credit, which their sender aborts, the newest first; the first one waits. */
static void aborted(uint32_t n)
{
    client from, k;
    const routerd_record m = message(&from);
    k = client_with(1, true);
    for (uint32_t i = 0; i < n; i++) { core_sends(&m, 0, i + 1)->flags = 0; turns(false); }
    for (uint32_t i = n; i > 1; i--) {
        routerd_record *r = to_worker(W_CONTINUE, world.links[0]);
        r->flags = F_ABORTED;
        r->peer = UINT64_C(1) << 32 | i;
        turns(true);
    }
    report("waiting_message_is_aborted", n);
    CHECK(world.p.outs.used == 1, "%u deliveries are left", world.p.outs.used);
    client_goes(&k, false);
    client_goes(&from, false);
}

/* n messages of one receiver, or of as many, that wait for its session's window, which then opens for one at a time. */
static void windows(uint32_t n, bool of_one_link, const char *const names[2])
{
    client from, k = client_new();
    const routerd_record m = message(&from);
    world.link_count = 0;
    say_begin(&k, 0, 0);
    for (uint32_t i = 0; i < (of_one_link ? 1 : n); i++) {
        say_attach(&k, 0, i, true);
        say_flow(&k, 0, i, 2 * n, 0);
        utter(&k, false);
    }
    for (uint32_t i = 0; i < n; i++) { core_sends(&m, of_one_link ? 0 : i, i + 1); turns(true); }
    report(names[0], n);
    for (uint32_t i = 0; i < n; i++) {
        say_window(&k, i + 1);
        utter(&k, true);
    }
    report(names[1], n);
    say_disposition(&k, 0, n - 1, true);
    utter(&k, false);
    CHECK(!world.p.outs.used, "%u messages have not been sent", world.p.outs.used);
    client_goes(&k, false);
    client_goes(&from, false);
}

enum { STARVING = STARVING_MOST - 1 };     /* receivers that stay; the last one that the worker remembers goes */

/* Presettled messages for receivers that have no credit: the core hears of each once, of few in a turn. */
static void starving(uint32_t n)
{
    client from, k, gone;
    const routerd_record m = message(&from);
    const uint32_t each = n / 10;
    uint64_t heard = 0;
    gone = client_with(1, true);
    const name last = world.links[0];
    k = client_with(STARVING, true);
    world.links[STARVING] = last;
    for (uint32_t i = 0; i < STARVING; i++) {
        ((worker_link *) pool_at(&world.p.links, world.links[i].index))->capacity = WIDE;
        for (uint32_t j = 0; j < each; j++) core_sends(&m, i, i * each + j + 1)->flags |= F_SETTLED;
        turns(false);
    }
    core_sends(&m, STARVING, STARVING * each + 1)->flags |= F_SETTLED;
    turns(false);
    CHECK(world.p.starving_count == STARVING_MOST, "%u receivers starve", world.p.starving_count);
    client_goes(&gone, false);
    for (uint32_t i = 0; i < world.p.links.high; i++)
        ((worker_link *) pool_at(&world.p.links, i))->starved_since -= 2 * STARVED_BRIEFLY;
    world.heard = 0;
    counting = true;
    starving_check(&world.p);
    for (const worker_link *l = world.p.waits_first; l; l = l->waits_next)
        CHECK(l->slot.next_free == SLOT_USED, "a link that is gone waits to be told of");
    while (heard < STARVING * each) {
        publish_actions(&world.p);
        counting = false;
        core_hears();
        CHECK(world.heard > heard && world.heard - heard <= WAITS_MOST + each, "%u at once", world.heard);
        heard = world.heard;
        counting = true;
        waits_serve(&world.p);
    }
    report("receiver_starves_per_message", heard);
    CHECK(heard == STARVING * each && !world.p.waits_first, "%lu are told", heard);
    client_goes(&k, false);
    client_goes(&from, false);
}

enum { TURNS = 3 };                    /* in which a message comes, or is settled; more links are looked at later */

/* n links that may keep no more blocks wait for some, while another client's messages come and go; then they detach. */
static void stalled(uint32_t n)
{
    client other = client_with(1, false), k;
    grant(0, n);
    turns(false);
    k = client_with(n, false);
    for (uint32_t i = 0; i < n; i++) {
        grant(i, 2);
        turns(false);
        say_transfer(&k, 0, i, i);
        utter(&k, false);
    }
    CHECK(world.delivered_count == n, "%u messages", world.delivered_count);
    const uint32_t reserve = world.p.reserve;
    world.p.reserve = (world.p.arena.free_count[0] + world.p.arena.free_count[1] + 1) / 2;
    for (uint32_t i = 0; i < n; i++) { say_transfer(&k, 0, i, n + i); utter(&k, true); }
    report("message_finds_no_block", n);
    for (uint32_t i = 0; i < n; i++) {
        say_transfer(&other, 0, 0, i);
        write_said(&other);
        for (uint32_t t = 0; t < TURNS; t++) turn(true);
        CHECK(world.delivered_count == n + 1, "%u messages", world.delivered_count);
        core_settles(n);
        for (uint32_t t = 0; t < TURNS; t++) turn(true);
        forget_answers(&other);
        world.delivered_count = n;
    }
    report("message_beside_those_without_blocks", n);
    for (uint32_t i = 0; i < n; i++) { say_end(&k, 0, shuffled(i, n), LANE_DETACH); utter(&k, true); }
    report("link_without_blocks_detaches", n);
    world.p.reserve = reserve;
    for (uint32_t i = 0; i < n; i++) { core_settles(i); turns(false); }
    client_goes(&k, false);
    client_goes(&other, false);
}

/* While blocks are few, a connection with n links that keep none is read on. */
static void paused(uint32_t n)
{
    client k = client_with(n, false);
    uint32_t low = world.p.low_small;
    world.p.low_small = world.p.arena.free_count[0] + 1;
    turns(false);
    CHECK(world.p.paused, "blocks are not few");
    for (uint32_t i = 0; i < n; i++) { say_flow(&k, 0, i, 0, 1000); utter(&k, true); }
    report("read_while_blocks_are_few", n);
    world.p.low_small = low;
    turns(false);
    client_goes(&k, false);
}

int main(int argc, char **argv)
{
    const uint32_t n = argc > 1 ? (uint32_t) atoi(argv[1]) : 1000;
    world_open(n);
    connections(n);
    connections_together(n);
    sessions(n);
    links(n);
    incoming(n, true, (const char *const[4]) { "message_comes", "core_settles", "sender_settles",
                                               "sender_goes_per_message" });
    incoming(n, false, (const char *const[4]) { "message_of_a_link", "core_settles_of_a_link", "link_settles",
                                                "links_go_per_message" });
    outgoing(n, true, (const char *const[4]) { "message_goes", "receiver_settles", "receiver_settles_all",
                                               "receiver_detaches_per_message" });
    outgoing(n, false, (const char *const[4]) { "message_of_a_receiver", "receivers_settle", "receivers_settle_all",
                                                "receivers_go_per_message" });
    waiting(n, true, (const char *const[2]) { "message_waits", "message_has_credit" });
    waiting(n, false, (const char *const[2]) { "receiver_waits", "receiver_has_credit" });
    aborted(n);
    windows(n, true, (const char *const[2]) { "message_waits_for_window", "message_has_window" });
    windows(n, false, (const char *const[2]) { "receiver_waits_for_window", "receiver_has_window" });
    repeated(n);
    stalled(n);
    paused(n);
    starving(n);
    drains(n);
    settled_at_once(10 * n);
    receiver_goes(10 * n, DETACHES, "most_deliveries_ended_by_detach_in_a_turn");
    receiver_goes(10 * n, ENDS, "most_deliveries_ended_by_end_in_a_turn");
    receiver_goes(10 * n, ENDS_MANY, "most_deliveries_ended_by_end_with_others_in_a_turn");
    receiver_goes(10 * n, CLOSES, "most_deliveries_ended_by_close_in_a_turn");
    receiver_goes(10 * n, VANISHES, "most_deliveries_ended_without_a_word_in_a_turn");
    dialled(n);
    named(n);
    held(n);
    route_workers(n);
    ockam_nodes(n);
    CHECK(!world.p.conns.used && !world.p.links.used && !world.p.ins.used && !world.p.outs.used, "something is left");
    return 0;
}
