/* What one frame of a peer makes the worker do goes on in the next turns, while others have theirs: counts of the
 * longest turn, which do not grow with n (growth_worker.c). */
#ifndef ROUTERD_TESTS_GROWTH_PORTIONS_H
#define ROUTERD_TESTS_GROWTH_PORTIONS_H

#include "tests/native/growth/growth_world.h"

static void report_longest(const char *name, uint64_t longest)
{
    steps = longest;
    report(name, 1);
}

/* A drain is answered before the next turn. */
static void core_answers_drains(void)
{
    for (; world.drained_count; world.drained_count--) {
        const name *link = &world.drained[world.drained_count - 1];
        to_worker(W_DRAINED, *link);
    }
}

static void say_drain(client *k, uint32_t handle, bool drain)
{
    uint8_t frame[LANE_FLOW_MAX];
    lane_flow w = { .has_next_in = true, .in_window = WIDE, .out_window = WIDE, .has_handle = true, .handle = handle,
                    .has_count = true, .has_credit = true, .credit = 10, .drain = drain };
    say(k, frame, lane_put_flow(frame, 0, &w));
}

/* Of n receivers of a client all drain, some of them again and again, and so does one of another client. */
static void drains(uint32_t n)
{
    client k = client_with(n, true), other = client_with(1, true);
    const name link = world.links[0];                          /* the other's */
    for (uint32_t i = 0; i < n; i++) {
        say_drain(&k, i, true);
        if (i % 4) continue;
        say_drain(&k, i, false);
        if (i % 8) say_drain(&k, i, true);
    }
    bool said = write_said(&k);
    say_drain(&other, 0, true);
    write_said(&other);
    uint32_t longest = 0, all = 0, before = 0;
    bool heard = false;
    for (uint32_t idle = 0; !said || idle < 2; idle = world.drained_count ? 0 : idle + 1) {
        core_answers_drains();
        said = said || write_said(&k);
        turn(false);
        forget_answers(&k);
        forget_answers(&other);
        for (uint32_t i = 0; i < world.drained_count; i++) heard |= world.drained[i].index == link.index;
        before += !heard;
        all += world.drained_count;
        if (world.drained_count > longest) longest = world.drained_count;
    }
    report_longest("most_drains_of_a_turn", longest);
    CHECK(before <= 1, "another client's drain waits for %u turns", before);
    CHECK(all >= n - n / 8 && all <= n + n / 4 + 1, "%u drains of %u", all, n);
    for (uint32_t i = 0; i < world.p.links.high; i++) {
        const worker_link *l = (worker_link *) pool_at(&world.p.links, i);
        CHECK(l->slot.next_free != SLOT_USED || !l->lane.drain || !l->lane.credit, "link %u still drains", i);
    }
    say_drain(&k, 0, true);
    say_end(&k, 0, 0, LANE_DETACH);
    say_drain(&k, 1, true);
    utter(&k, false);
    client_goes(&other, false);
    client_goes(&k, false);
    world.drained_count = 0;
    CHECK(!world.p.drain_first, "a connection that is gone drains");
}

enum { LATER = 10 };                   /* deliveries that begin behind the DISPOSITION of all */

static void core_settles(uint32_t number)
{
    const routerd_record *d = &world.delivered[number];
    routerd_record *r = to_worker(W_UPDATE, (name) { d->link, d->link_gen });
    r->flags = F_IN | F_SETTLED | F_RELEASE;
    r->state = S_ACCEPTED;
    r->delivery = d->peer;
    r->arena = d->arena;
    r->block = d->block;
}

/* A message in the worker's own blocks, for all receivers. */
static routerd_record message(client *from)
{
    *from = client_with(1, false);
    to_worker(W_FLOW, world.links[0])->credit = 1;
    turns(false);
    say_transfer(from, 0, 0, 0);
    utter(from, false);
    CHECK(world.delivered_count == 1, "no message");
    return world.delivered[0];
}

static routerd_record *core_sends(const routerd_record *m, uint32_t link, uint64_t handle)
{
    routerd_record *r = to_worker(W_SEND, world.links[link]);
    r->arena = m->arena;
    r->block = m->block;
    r->length = m->length;
    r->flags = F_COMPLETE;
    r->peer = UINT64_C(1) << 32 | handle;
    return r;
}

/* A receiver settles n deliveries with one DISPOSITION, which names later ones, too, and detaches.  Meanwhile more are
 * sent to it, and another client is heard in each turn. */
static void settled_at_once(uint32_t n)
{
    client from, other = client_with(1, false), k;
    const name others = world.links[0];
    to_worker(W_FLOW, others)->credit = 250;
    turns(false);
    const routerd_record m = message(&from);
    k = client_with(1, true);
    say_flow(&k, 0, 0, n + LATER, WIDE);
    utter(&k, false);
    for (uint32_t i = 0; i < n; i++) { core_sends(&m, 0, i + 1); turns(false); forget_answers(&k); }
    world.accepted = world.delivered_count = 0;
    say_disposition(&k, 0, WIDE, true);
    say_end(&k, 0, 0, LANE_DETACH);
    CHECK(write_said(&k), "the socket takes less");
    for (uint32_t i = 0; i < LATER; i++) core_sends(&m, 0, n + i + 1);
    uint32_t longest = 0, before = 0, parts = 0;
    for (; world.p.links.used == 3; before = world.accepted, parts++) {
        say_transfer(&other, 0, 0, parts);
        CHECK(write_said(&other) && parts < 250, "one DISPOSITION lasts %u turns", parts);
        turn(false);
        if (world.accepted - before > longest) longest = world.accepted - before;
        CHECK(world.delivered_count == parts + 1, "another client waits for %u deliveries", world.accepted);
    }
    report_longest("most_deliveries_settled_in_a_turn", longest);
    CHECK(world.accepted == n, "%u of %u deliveries are settled before the link goes", world.accepted, n);
    turns(false);
    CHECK(!world.p.outs.used, "%u deliveries are left", world.p.outs.used);
    for (uint32_t i = 0; i < parts; i++) core_settles(i);
    turns(false);
    client_goes(&k, false);
    client_goes(&from, false);
    client_goes(&other, false);
}

enum leaving { DETACHES, ENDS, ENDS_MANY, CLOSES, VANISHES };

/* What is sent to a link that goes is not taken: it is released at once, or dropped if it came settled. */
static void declined(uint32_t handle, bool settled)
{
    const routerd_record *r = &world.newest;
    CHECK((uint32_t) r->delivery == handle, "delivery %u waits for those before it", handle);
    if (settled) CHECK(r->type == A_DONE && r->flags == F_DROPPED, "delivery %u is not dropped", handle);
    else CHECK(r->type == A_UPDATE && r->state == S_RELEASED && r->flags == (F_SETTLED | F_UNSENT),
               "delivery %u is not released", handle);
}

/* NULL: it is gone. */
static const worker_link *link_at(name link)
{
    return (const worker_link *) pool_find2(&world.p.links, link.index, link.generation);
}

enum { CROWDED = 300 };                /* links of ENDS_MANY: more than the engine frees at once */

/* A receiver with n unsettled deliveries goes, while more are sent to it and another client is heard in each turn.
 * ENDS_MANY: so do others of its session, which have none. */
static void receiver_goes(uint32_t n, enum leaving how, const char *report_name)
{
    client from, other = client_with(1, false), k;
    to_worker(W_FLOW, world.links[0])->credit = 250;
    turns(false);
    const routerd_record m = message(&from);
    k = client_with(how == ENDS_MANY ? CROWDED : 1, true);
    const name link = world.links[0];
    say_flow(&k, 0, 0, n - n / 4, WIDE);                       /* a quarter of them waits for credit */
    utter(&k, false);
    for (uint32_t i = 0; i < n; i++) { core_sends(&m, 0, i + 1); turns(false); forget_answers(&k); }
    world.ended = world.delivered_count = 0;
    world.newest.delivery = 0;
    if (how == DETACHES) say_end(&k, 0, 0, LANE_DETACH);
    else if (how == ENDS || how == ENDS_MANY) say_end(&k, 0, 0, LANE_END);
    else if (how == CLOSES) say_end(&k, 0, 0, LANE_CLOSE);
    CHECK(write_said(&k), "the socket takes less");
    if (how == VANISHES) close(k.fd);
    uint32_t longest = 0, before = 0, parts = 0, later = 0;
    for (const worker_link *l; (l = link_at(link)); before = world.ended, parts++) {
        const bool more = parts < LATER, settled = parts % 2, leaves = l->leaving;
        say_transfer(&other, 0, 0, parts);
        CHECK(write_said(&other) && parts < 250, "a link goes for %u turns", parts);
        if (more) core_sends(&m, 0, n + ++later)->flags |= settled ? F_SETTLED : 0;
        turn(false);
        if (more && leaves && link_at(link)) declined(n + later, settled);
        if (world.ended - before > longest) longest = world.ended - before;
        CHECK(world.delivered_count == parts + 1, "another client waits for %u deliveries", world.ended);
    }
    report_longest(report_name, longest);
    /* the last one may have crossed with the link's end */
    CHECK(world.ended == n + later || world.ended == n + later - 1, "%u of %u are told of", world.ended, n + later);
    turns(false);
    CHECK(!world.p.outs.used, "%u deliveries are left", world.p.outs.used);
    for (uint32_t i = 0; i < parts; i++) core_settles(i);
    turns(false);
    if (how == VANISHES) free(k.said);
    else client_goes(&k, false);
    client_goes(&from, false);
    client_goes(&other, false);
}

#endif
