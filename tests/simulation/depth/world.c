/* The supervisor, the scheduler, and lives.
 *
 * Arguments: seed, seeds (0: no limit), seconds of CPU time (0: no limit), kind of lives (enum life_kind; without it
 * each seed begins one of each).  A life is the same in each run: one that fails is told with its seed and its kind,
 * and `world SEED 1 0 KIND` repeats it alone.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "shm/memory/layout.h"
#include "tests/simulation/depth/simulation.h"
#include "tests/simulation/depth/network.h"
#include "tests/simulation/depth/tables_model.h"
#include "tests/simulation/depth/sourced_model.h"
#include "tests/simulation/depth/totals.h"

enum {
    ARENA_MOST = 4 << 20, CORE_ARENA = 128 << 10,
    PHASES = 3,                        /* of a life: each ends when all has come to rest */
    PHASE_STEPS = 6000,
    PATIENCE_STEPS = 3000000,          /* until all has come to rest */
    LIFE_SECONDS = 60,                 /* of CPU: a life that takes longer hangs */
    CALM_NS = 1500000000,              /* of virtual time in which nothing happens: it rests */
};
#define PATIENCE_NS 60000000000ull     /* of virtual time in which clients wait */
#define MEMORY_MOST ((size_t) 24 << 20)        /* octets of a process's heap */

uint64_t chance_state;
segments shared;

static uint64_t life_seed, life_steps, generations;
static enum life_kind life_kind;
static struct {
    uint32_t generation[MOST_WORKERS + 1];
    bool noticed[MOST_WORKERS + 1], reclaiming[MOST_WORKERS];
    bool orphaned;                     /* there is no core, and memory must be made anew before the next one */
    uint32_t deaths;                   /* one in so many steps; 0: nobody dies */
    bool workers_die, core_dies, all_die;
    bool takers;                       /* a broker feeds receivers who take little */
    uint32_t stride, clients;
    size_t arena;
} life;

__attribute__((noreturn)) void failed(const char *file, int line, const char *condition, const char *form, ...)
{
    va_list given;
    va_start(given, form);
    fprintf(stderr, "\nSEED=%llu kind %d fails at step %llu of its life, %llu ns: ", (unsigned long long) life_seed,
            (int) life_kind, (unsigned long long) life_steps, (unsigned long long) virtual_now);
    vfprintf(stderr, form, given);
    fprintf(stderr, "\n    %s:%d: %s, running: %d; deaths of workers %llu, of cores %llu\n", file, line, condition,
          running,
            (unsigned long long) total.worker_deaths, (unsigned long long) total.core_deaths);
    va_end(given);
    if (getenv("SIMULATION_TELL")) people_tell();
    if (getenv("SIMULATION_CORE")) abort();
    _Exit(1);
}

static void crashed(int signal)
{
    fprintf(stderr, "\nSEED=%llu kind %d fails at step %llu of its life: signal %d, running: %d\n",
            (unsigned long long) life_seed, (int) life_kind, (unsigned long long) life_steps, signal, running);
    _Exit(1);
}

#include "tests/simulation/depth/supervisor.h"

/* ---- the scheduler ---- */

static bool runs(int number)
{
    const process *p = &processes[number];
    if (!p->alive) return false;
    if (!p->asleep || virtual_now >= p->wake_at) return true;
    return number == CORE ? shared.semaphore > 0 : worker_wakes((uint32_t) number);
}

/* A process runs up to one of its next points; false: none can. */
static bool process_step(void)
{
    int able[MOST_WORKERS + 1], n = 0;
    for (uint32_t w = 0; w < shared.workers; w++) if (runs((int) w)) able[n++] = (int) w;
    if (runs(CORE)) able[n++] = CORE;
    if (!n) return false;
    process_resume(able[below((uint32_t) n)], 1 + below(life.stride));
    return true;
}

/* Nobody reads what makes no sense. */
static void records_make_sense(void)
{
    for (uint32_t i = 0; i <= shared.workers; i++) {
        const stats_page *page = (const stats_page *) (shared.control + layout_stats(i));
        HOLDS(!stats_get(page, N_BAD_RECORDS), "a record made no sense to %s %u", i < shared.workers ? "worker"
              : "core", i);
    }
}

static void step_over(void)
{
    records_make_sense();
    life_steps++;
    total.steps++;
    virtual_now += below(3000);
    core_hold_still();
}

/* Time passes until somebody wakes; false: nobody ever does. */
static bool time_passes(void)
{
    uint64_t next = UINT64_MAX;
    for (int i = 0; i <= CORE; i++) if (processes[i].alive && processes[i].asleep && processes[i].wake_at < next)
          next = processes[i].wake_at;
    if (next == UINT64_MAX) return false;
    if (next > virtual_now) virtual_now = next;
    return true;
}

static bool client_turn(void) { return client_step(below(life.clients)); }

/* One step: somebody does something. */
static void step(void)
{
    bool done;
    if (life.deaths && one_in(life.deaths)) { somebody_dies(); step_over(); return; }
    if (tables.on && one_in(tables.changes)) { tables_change(); step_over(); return; }
    if (sourced.on && one_in(sourced.changes)) { sourced_change(); step_over(); return; }
    switch (below(32)) {
    case 0: done = supervisor_step(); break;
    case 1 ... 12: done = client_turn(); break;
    default: done = process_step();
    }
    if (!done && !client_turn() && !process_step() && !supervisor_step()) time_passes();
    step_over();
}

/* Until nothing is on its way, and for a while clients have nothing to say or to hear. */
static void come_to_rest(bool (*wanted)(void))
{
    uint64_t since = virtual_now, steps = 0;
    for (;; steps++) {
        bool did = false, run = false;
        if (one_in(64)) did = supervisor_step();
        if (!did && one_in(3)) did = client_turn();
        if (!did) run = process_step();
        for (uint32_t i = 0; i < life.clients && !did && !run; i++) did = client_step(i);
        if (!did && !run) did = supervisor_step();
        if (did) since = virtual_now;
        step_over();
        HOLDS(steps < PATIENCE_STEPS, "the router does not come to rest");
        if (did || run) continue;
        if (!wanted() && !people_wait() && virtual_now - since > CALM_NS) return;
        HOLDS(virtual_now - since < PATIENCE_NS, "somebody waits for ever");
        HOLDS(time_passes(), "nobody ever wakes");
    }
}

static bool nothing_more(void) { return false; }
static bool goodbye(void) { return !people_goodbye(); }

static void all_rest(bool empty)
{
    core_rests(empty);
    for (uint32_t w = 0; w < shared.workers; w++) {
        HOLDS(processes[w].alive, "worker %u is missing", w);
        worker_rests(w, empty);
    }
    people_check();
    network_rests();
    for (int i = 0; i < PROCESSES; i++)
        HOLDS(processes[i].heap_most < MEMORY_MOST, "process %d has used %zu octets", i, processes[i].heap_most);
}

/* ---- lives ---- */

/* Sessions with small windows, messages in parts, or few blocks.  Not all of these at once: links of a session wait for
 * each other once its window is full (docs/decisions/005-hold-off-and-session-window.md), and for ever if one of them
 * waits for a block that another one's rest would free. */
static void life_terms(void)
{
    const uint32_t kind = below(3);
    listener_terms = (worker_terms) { .frame = 512u << below(4), .window = kind ? 1 << 14 : 4u << below(6),
                                      .capacity = one_in(6) ? 0 : 1 + below(20), .whole = kind != 1 };
    life.arena = kind == 2 ? (size_t) (192 << 10) << below(3) : ARENA_MOST;
}

/* Few blocks, a small window and whole messages; a broker, two who take little, and some who share its session. */
static void takers_terms(void)
{
    listener_terms.window = 4u << below(4);
    listener_terms.whole = true;
    life.arena = 384 << 10;
    life.clients = CLIENTS;
}

static void life_begin(uint64_t seed, enum life_kind kind)
{
    static const uint32_t deaths[] = { 0, 0, 300, 1500, 5000, 12000 }, strides[] = { 1, 2, 8, 40, 200 };
    life_seed = seed;
    life_kind = kind;
    chance_state = (seed + 1) * 0x9e3779b97f4a7c15ull ^ (uint64_t) kind << 32;
    if (!chance_state) chance_state = 1;
    for (int i = 0; i < 8; i++) (void) chance();
    life_steps = generations = 0;
    virtual_now = 1000000000;
    memset(&life, 0, sizeof life);
    life.deaths = deaths[below(6)];
    life.workers_die = one_in(2);
    life.core_dies = !life.workers_die || one_in(2);
    life.all_die = one_in(4);
    life.stride = strides[below(5)];
    life.takers = kind == PLAIN && seed % 8 == 5;
    life.clients = 2 + below(CLIENTS - 1);
    tables_begin(kind == TABLES);
    sourced_begin(kind == SOURCED);
    network_begin(seed);
    if (life.clients <= network.neighbours) life.clients = network.neighbours + 1;
    life_terms();
    if (life.takers) takers_terms();
    memory_begin();
    people_begin(life.takers);
    memset(life.noticed, 1, sizeof life.noticed);
    for (int i = 0; i < PROCESSES; i++) processes[i].heap_most = processes[i].heap_live;
}

static void life_end(void)
{
    for (uint32_t w = 0; w < shared.workers; w++) {
        worker_bury(w);
        process_kill((int) w);
    }
    process_kill(CORE);
    people_end();
    HOLDS(!processes[PEOPLE].heap_live, "clients have %zu octets left", processes[PEOPLE].heap_live);
    process_kill(PEOPLE);
    memset(wires, 0, offsetof(wire, in));
    for (int i = 0; i < WIRES; i++) wires[i].used = false;
}

static void live(uint64_t seed, enum life_kind kind)
{
    setitimer(ITIMER_VIRTUAL, &(struct itimerval) { .it_value.tv_sec = LIFE_SECONDS }, NULL);
    life_begin(seed, kind);
    total.lives++;
    for (int phase = 0; phase < PHASES; phase++) {
        people_oblige(false);
        for (uint32_t i = 0; i < PHASE_STEPS; i++) step();
        people_oblige(true);
        come_to_rest(nothing_more);
        all_rest(false);
    }
    come_to_rest(goodbye);
    all_rest(true);
    life_end();
}

int main(int argc, char **argv)
{
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, lives = argc > 2 ? strtoull(argv[2], NULL, 10)
          : 0;
    const double seconds = argc > 3 ? atof(argv[3]) : 0;
    const int only = argc > 4 ? atoi(argv[4]) : KINDS;
    struct timespec began, now;
    stack_t stack = { .ss_sp = malloc(1 << 16), .ss_size = 1 << 16 };
    struct sigaction action = { .sa_handler = crashed, .sa_flags = SA_ONSTACK };
    sigaltstack(&stack, NULL);
    if (!getenv("SIMULATION_CORE")) {
        sigaction(SIGSEGV, &action, NULL);
        sigaction(SIGABRT, &action, NULL);
        sigaction(SIGFPE, &action, NULL);
        sigaction(SIGBUS, &action, NULL);
        sigaction(SIGILL, &action, NULL);
        sigaction(SIGVTALRM, &action, NULL);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &began);
    for (uint64_t i = 0;; i++) {
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
        if (lives && i >= lives) break;
        if (seconds > 0 && (double) (now.tv_sec - began.tv_sec) >= seconds) break;
        for (int kind = 0; kind < KINDS; kind++)
            if (only == KINDS || kind == only) live(seed + i, (enum life_kind) kind);
    }
    const double took = (double) (now.tv_sec - began.tv_sec) + (double) (now.tv_nsec - began.tv_nsec) / 1e9;
    totals_tell(seed, took);
    return 0;
}
