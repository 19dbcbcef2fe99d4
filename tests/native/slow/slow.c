/* Which links of a broker's connection end because their clients take nothing, and when, with a clock of its own.
 *
 * The program ends with a line for the first mistake.
 */
#define _GNU_SOURCE
#include "tests/native/slow/slow_broker.h"

/* ---- what a session's window has to wait for ---- */

static void settles_nothing(void)
{
    broker_comes();
    const name hog = link_of(HOG, false, 1), other = link_of(OTHER, false, 1), third = link_of(THIRD, false, 2);
    fills(hog);
    sends(third, 1, false);
    slow_ends(hog, "settles nothing");
    goes_on(other, "beside one that has settled nothing");
    there(third, "in another session");
    pass(MINUTE);
    CHECK(!broker.c->lane->relieve_at && !broker.c->lane->holding_first, "it is looked for slow links");
    broker_goes();
}

static void takes_nothing(void)
{
    broker_comes();
    const name hog = link_of(HOG, false, 1), other = link_of(OTHER, false, 1);
    for (int i = 0; i < 1000 && !session_stands(far(hog)->session); i++) sends(hog, 1, true);
    CHECK(far(hog)->held, "a stream is not held");
    slow_ends(hog, "takes nothing");
    goes_on(other, "beside one that has taken nothing");
    broker_goes();
}

/* It would hold up others again at once. */
static void comes_again(void)
{
    char why[REFUSAL_ROOM];
    broker_comes();
    const name hog = link_of(HOG, false, 1), other = link_of(OTHER, false, 1);
    fills(hog);
    CHECK(!slow_refused(broker.c, HOG, why), "%s", why);
    slow_ends(hog, "comes again");
    CHECK(slow_refused(broker.c, HOG, why), "who has held up others gets another link");
    CHECK(!slow_refused(broker.c, OTHER, why), "%s", why);
    pass(MINUTE);
    CHECK(!slow_refused(broker.c, HOG, why), "%s", why);
    goes_on(other, "beside one that comes again");
    broker_goes();
}

/* A message longer than the window, of which the receiver takes a little now and then. */
static void takes_slowly(void)
{
    broker_comes();
    const name slow = link_of(HOG, false, 1), other = link_of(OTHER, false, 1);
    while (!session_stands(far(slow)->session)) sends(slow, 1, true);
    for (uint32_t i = 1; i <= 20; i++) {
        pass(SLOW_MS - SLACK);
        there(slow, "takes slowly");
        routerd_record *r = to_worker(W_CONSUMED, slow);
        r->delivery = pool_handle(&world.p.ins, far(slow)->current);
        r->length = i * 1000;
        turns(false);
    }
    slow_ends(slow, "takes slowly, and then nothing");
    there(other, "beside a slow one");
    broker_goes();
}

static void settles_slowly(void)
{
    broker_comes();
    const name slow = link_of(HOG, false, 1), other = link_of(OTHER, false, 1);
    sends(slow, WINDOW / 2, false);
    fills(slow);
    for (int i = 0; i < 5; i++) {
        pass(SLOW_MS - SLACK);
        there(slow, "settles slowly");
        settles(slow);
        fills(slow);
    }
    slow_ends(slow, "settles slowly, and then nothing");
    goes_on(other, "beside a slow one");
    broker_goes();
}

/* It keeps no message itself, because its client's other link keeps all, and settles some. */
static void waits_for_its_client(void)
{
    broker_comes();
    const name busy = link_of(HOG, false, 1), empty = link_of(HOG, false, 2), other = link_of(OTHER, false, 2);
    sends(busy, WINDOW / 2, false);
    fills(busy);
    sends(empty, WINDOW, false);
    for (int i = 0; i < 3; i++) {
        pass(SLOW_MS - SLACK);
        settles(busy);
        few_blocks(true);
        there(empty, "waits for its client");
    }
    slow_ends(empty, "its client settles nothing more");
    there(busy, "in a session of its own");
    goes_on(other, "beside one that has waited");
    broker_goes();
}

/* ---- whose fault it is not ---- */

static void alone(void)
{
    broker_comes();
    const name one = link_of(HOG, false, 1), same = link_of(HOG, false, 1);
    const name a = link_of(THIRD, true, 2), b = link_of(THIRD, true, 2), other = link_of(OTHER, false, 3);
    fills(one);
    fills(a);
    pass(MINUTE);
    there(one, "alone in its session");
    there(same, "the client's other link");
    there(a, "one of a neighbour's session");
    there(b, "another one of that");
    there(other, "another client's");
    broker_goes();
}

static void hindered(void)
{
    broker_comes();
    const name hog = link_of(HOG, false, 1), other = link_of(OTHER, false, 1);
    const uint32_t low = world.p.low_small;
    fills(hog);
    world.p.low_small = world.p.arena.free_count[0] + 1;
    pass(MINUTE);
    CHECK(world.p.paused, "blocks are not few");
    there(hog, "while blocks are few");
    world.p.low_small = low;
    pass(SLACK);
    world.p.resting = true;
    pass(MINUTE);
    world.p.resting = false;
    there(hog, "while there is no core");
    for (int i = 0; i < MINUTE / SWEEP_MS; i++) {
        post_link(&world.p, A_CREDIT, far(other))->credit = 0;     /* which the core does not read */
        publish_actions(&world.p);
        now += SWEEP_MS * 1000000ull;
        world.p.next_sweep = (int64_t) (now / 1000000u);
        pump_run(&world.p, 0);
        if (i % 100 == 99) core_hears();
    }
    core_hears();
    there(hog, "while the core does not read");
    now += MINUTE * 1000000ull;
    pump_run(&world.p, 0);
    there(hog, "when the worker has not run for a while");
    slow_ends(hog, "behind all that");
    broker_goes();
}

/* ---- who shares a session ---- */

static void beside_the_routers_own(void)
{
    broker_comes();
    const name hog = link_of(HOG, false, 1), own = link_of(0, false, 1);
    fills(hog);
    slow_ends(hog, "beside the router's own link");
    there(own, "the router's own");
    broker_goes();
}

static void behind_a_neighbour(void)
{
    broker_comes();
    const name hog = link_of(HOG, true, 1);
    fills(hog);
    pass(MINUTE);
    there(hog, "a neighbour's, alone");
    worker_link *k = far(link_of(HOG, true, 1));
    CHECK(!k->session->seams, "one session of a neighbour is several clients'");
    seams_remove(k->session, k);                               /* as if it shared this session for want of another */
    k->asked_session++;
    seams_add(k->session, k);
    slow_due(k->session);
    pass(SLOW_LOOK_MS + SLACK);
    gone(hog, "a neighbour's, in a session of several clients");
    broker_goes();
}

/* Who comes later finds the window shut. */
static void joins(void)
{
    broker_comes();
    const name hog = link_of(HOG, false, 1), other = link_of(OTHER, false, 2);
    fills(hog);
    pass(MINUTE);
    there(hog, "alone");
    const name joining = link_of(OTHER, false, 1);
    pass(SLACK);
    gone(hog, "shared at last");
    goes_on(joining, "joins");
    there(other, "in another session");
    fills(other);
    pass(MINUTE);
    (void) link_of(0, false, 2);
    pass(SLACK);
    gone(other, "joined by the router's own");
    broker_goes();
}

/* ---- a connection of which too much waits ---- */

static void too_much(void)
{
    enum { FULL = 4 };
    name hogs[FULL];
    broker_comes();
    for (uint32_t i = 0; i < FULL; i++) hogs[i] = link_of(HOG, false, i);
    const name idle = link_of(THIRD, false, FULL), other = link_of(OTHER, false, FULL + 1);
    sends(idle, 10, false);
    few_blocks(true);
    sends(idle, 2, false);
    CHECK(far(idle)->stalled && far(idle)->held_octets, "nothing of it waits");
    for (uint32_t i = 0; i < FULL; i++) sends(hogs[i], 12, false);
    broker.c->lane->held_most = broker.c->lane->held;
    for (int i = 0; i < 2; i++) sends(hogs[0], 1, false);
    CHECK(!broker.c->reading, "it is read on");
    pass(SLOW_MS + SLOW_LOOK_MS + SLACK);
    for (uint32_t i = 0; i < FULL; i++) gone(hogs[i], "the client for whom the most waits");
    pass(MINUTE);
    there(idle, "for whom less waits");
    goes_on(other, "of the connection");
    broker_goes();
}

/* Who comes later waits for an answer that nobody reads. */
static void joins_one_not_read(void)
{
    broker_comes();
    const name hog = link_of(HOG, false, 0), same = link_of(HOG, false, 1);
    sends(hog, 12, false);
    few_blocks(true);
    sends(hog, 12, false);
    broker.c->lane->held_most = broker.c->lane->held;
    for (int i = 0; i < 2; i++) sends(hog, 1, false);
    CHECK(!broker.c->reading, "it is read on");
    pass(MINUTE);
    there(hog, "the only client");
    (void) link_asked(OTHER, false, 1, broker.handles++);
    pass(SLOW_LOOK_MS + SLACK);
    gone(hog, "another client waits for an answer");
    there(same, "of which nothing waits");
    CHECK(broker.c->reading, "the answer is not read");
    broker_goes();
}

/* ---- portions ---- */

/* A client has many slow links: some end with each sweep. */
static void many(void)
{
    enum { MANY = 40 };
    name hogs[MANY];
    uint32_t left = 0;
    broker_comes();
    for (uint32_t i = 0; i < MANY; i++) hogs[i] = link_of(HOG, false, 1);
    const name other = link_of(OTHER, false, 1);
    sends(hogs[0], 8, false);
    few_blocks(true);
    for (uint32_t i = 0; !session_stands(far(other)->session); i++) sends(hogs[i % MANY], 1, false);
    pass(SLOW_MS - SWEEP_MS);
    for (uint32_t i = 0; i < MANY; i++) there(hogs[i], "one of many");
    each = TURN_OF_ONE;                                        /* so long each portion takes */
    pass(SWEEP_MS);
    each = 0;
    for (uint32_t i = 0; i < MANY; i++) left += far(hogs[i]) != NULL;
    CHECK(left < MANY && left >= MANY - PORTION, "%u of many links are left", left);
    CHECK(!session_stands(far(other)->session), "the window is shut");
    broker_goes();
}

/* ---- a message whose rest is not read ---- */

/* The first piece of a message whose annotations are longer. */
static void annotations_begin_to_come(void)
{
    uint8_t frame[LANE_TRANSFER_MAX + 128] = { 0 };
    lane_transfer t = { .has_id = true, .has_format = true, .more = true, .tag = { (const uint8_t *) "t", 1 } };
    uint8_t *at = lane_put_transfer(frame, 0, &t);
    at = amqp_put_items_head(amqp_put_descriptor(at, SECTION_MESSAGE_ANNOTATIONS), AMQP_MAP32, 100000, 2);
    at = amqp_put_octets(at, AMQP_SYMBOL8, "x", 1);
    say(&broker.k, frame, lane_put_size(frame, at));
    utter(&broker.k, false);
}

/* Others wait for its turn; its connection is not read, for what waits of its other links, and then it is. */
static void unread(void)
{
    broker_comes();
    world.link_count = 0;
    say_begin(&broker.k, 0, WIDE);
    say_attach(&broker.k, 0, 0, false);
    utter(&broker.k, false);
    to_worker(W_FLOW, world.links[0])->credit = 1;
    turns(false);
    annotations_begin_to_come();
    const in_delivery *s = far(world.links[0])->current;
    CHECK(s && !s->posted, "nothing is missing");
    lane_connection *l = broker.c->lane;
    const size_t most = l->held_most;
    l->held += most + 1;                                       /* as if it were another link's */
    say_window(&broker.k, WIDE);
    write_said(&broker.k);
    for (int i = 0; i < MINUTE / SWEEP_MS; i++) {
        now += SWEEP_MS * 1000000ull;
        world.p.stream_wanted = true;
        world.p.stalled_first = 0;                             /* somebody */
        turn(false);
        streams_check(&world.p);
    }
    CHECK(!broker.c->reading && !s->discard, "it is refused for what nobody reads");
    l->held -= most + 1;
    conn_resume(&world.p, broker.c);
    for (int i = 0; i < MINUTE / SWEEP_MS; i++) {
        now += SWEEP_MS * 1000000ull;
        turn(false);
        world.p.stream_wanted = true;
        streams_check(&world.p);
    }
    world.p.stalled_first = ROUTERD_NIL;
    CHECK(s->discard, "it is never refused");
    broker_goes();
}

int main(void)
{
    world_open(N);
    settles_nothing();
    takes_nothing();
    comes_again();
    takes_slowly();
    settles_slowly();
    waits_for_its_client();
    alone();
    hindered();
    beside_the_routers_own();
    behind_a_neighbour();
    joins();
    too_much();
    joins_one_not_read();
    many();
    unread();
    return 0;
}
