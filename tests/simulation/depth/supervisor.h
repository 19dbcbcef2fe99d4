/* Shared memory, deaths, and what the supervisor does. */
#ifndef ROUTERD_TESTS_SIMULATION_SUPERVISOR_H
#define ROUTERD_TESTS_SIMULATION_SUPERVISOR_H

/* ---- shared memory ---- */

static uint8_t *memory(size_t size)
{
    uint8_t *at = (uint8_t *) aligned_alloc(4096, layout_page_up(size));
    HOLDS(at, "no memory");
    return (uint8_t *) memset(at, 0, layout_page_up(size));
}

static void memory_reset(void)
{
    for (uint32_t w = 0; w < shared.workers; w++)
        HOLDS(ring_format((routerd_ring *) (shared.rings + layout_action_ring(w)), shared.ring_room)
              && ring_format((routerd_ring *) (shared.rings + layout_work_ring(w)), shared.ring_room), "no ring");
    for (uint32_t i = 0; i <= shared.workers; i++) {
        arena_view v;
        const size_t size = i < shared.workers ? shared.arena_bytes : shared.core_bytes;
        layout_format_arena(shared.arena[i], size);
        HOLDS(arena_attach(&v, shared.arena[i], size), "no arena");
        arena_mark_none(&v);
    }
    doorbell_wake((routerd_doorbell *) (shared.control + layout_core_doorbell()));
    shared.semaphore = 0;
}

static void memory_begin(void)
{
    if (!shared.control) {
        shared.control = memory(layout_control_bytes(MOST_WORKERS));
        shared.rings = memory(layout_rings_bytes(MOST_WORKERS));
        for (int i = 0; i <= MOST_WORKERS; i++) shared.arena[i] = memory(ARENA_MOST);
    }
    shared.workers = 1 + below(MOST_WORKERS);
    shared.ring_room = 16u << below(5);
    shared.arena_bytes = life.arena;
    shared.core_bytes = CORE_ARENA;
    memset(shared.control, 0, layout_board(shared.workers));
    for (uint32_t i = 0; i < shared.workers; i++) memset(shared.arena[i], 0, shared.arena_bytes);
    memset(shared.arena[shared.workers], 0, shared.core_bytes);
    memset(shared.bell, 0, sizeof shared.bell);
    memset(shared.wake, 0, sizeof shared.wake);
    layout_format_control(shared.control, shared.workers, shared.arena_bytes);
    memory_reset();
}

/* ---- deaths ---- */

static void worker_dies(uint32_t w)
{
    worker_bury(w);
    process_kill((int) w);
    people_disturbed();
    life.noticed[w] = false;
    total.worker_deaths++;
}

static void core_dies(void)
{
    process_kill(CORE);
    people_disturbed();
    life.noticed[MOST_WORKERS] = false;
    total.core_deaths++;
}

static void all_die(void)
{
    for (uint32_t w = 0; w < shared.workers; w++) if (processes[w].alive) worker_dies(w);
    if (processes[CORE].alive) core_dies();
    memset(life.reclaiming, 0, sizeof life.reclaiming);
    memset(life.noticed, 1, sizeof life.noticed);
    memset(shared.control, 0, layout_board(shared.workers));
    layout_format_control(shared.control, shared.workers, shared.arena_bytes);
    life.orphaned = true;
    total.supervisor_deaths++;
}

static void somebody_dies(void)
{
    uint32_t which = below(8);
    if (!which && life.all_die) { all_die(); return; }
    if (which < 3 && life.core_dies) {
        if (processes[CORE].alive) core_dies();
    } else if (life.workers_die) {
        uint32_t w = below(shared.workers);
        if (processes[w].alive) worker_dies(w);
    }
}

/* ---- the supervisor ---- */

static void core_lost(void)
{
    life.noticed[MOST_WORKERS] = life.orphaned = true;
    for (uint32_t w = 0; w < shared.workers; w++) {
        life.reclaiming[w] = false;
        if (processes[w].alive && !worker_core_gone(w)) worker_dies(w);
    }
}

/* Starts a core once all workers have let go of the former one. */
static bool core_starts(void)
{
    uint32_t outlived = 0;
    for (uint32_t w = 0; w < shared.workers && life.orphaned; w++) {
        if (!processes[w].alive) continue;
        if (!worker_quiet(w)) return false;
        outlived |= 1u << w;
    }
    if (life.orphaned) memory_reset();
    life.orphaned = false;
    for (uint32_t w = 0; w < shared.workers; w++) life.noticed[w] |= !processes[w].alive;
    if (tables.on) people_disturbed();     /* the dead core may have been told of what has come since */
    core_birth(outlived, ++generations * 0x9e3779b97f4a7c15ull);
    for (uint32_t w = 0; w < shared.workers; w++) if (outlived >> w & 1) worker_core_back(w);
    return true;
}

/* Does one thing that is due; false: nothing is. */
static bool supervisor_step(void)
{
    if (!processes[CORE].alive && !life.noticed[MOST_WORKERS]) { core_lost(); return true; }
    if (!processes[CORE].alive) return core_starts();
    for (uint32_t w = 0; w < shared.workers; w++) {
        if (processes[w].alive) continue;
        if (!life.noticed[w]) {
            life.noticed[w] = life.reclaiming[w] = true;
            core_worker_gone(w, life.generation[w]);
            return true;
        }
        if (life.reclaiming[w] && core_reclaimed(w) != life.generation[w]) continue;
        life.reclaiming[w] = false;
        life.generation[w] = (uint32_t) ++generations;
        worker_birth(w);
        return true;
    }
    return false;
}

#endif
