/* What has happened in all lives. */
#ifndef ROUTERD_TESTS_SIMULATION_TOTALS_H
#define ROUTERD_TESTS_SIMULATION_TOTALS_H

#include <stdio.h>

#include "tests/simulation/depth/simulation.h"

totals total;

static void totals_tell(uint64_t seed, double took)
{
    printf("seeds %llu to %llu: %llu steps in %llu lives, %.1f s of CPU, %.2f million steps a minute\n",
           (unsigned long long) seed, (unsigned long long) (seed + total.lives - 1), (unsigned long long) total.steps,
           (unsigned long long) total.lives, took, took > 0 ? (double) total.steps / took * 60 / 1e6 : 0.0);
    printf("messages %llu (presettled %llu, in parts %llu), settled %llu, accepted %llu, received %llu\n",
           (unsigned long long) total.messages, (unsigned long long) total.presettled, (unsigned long long)
                 total.streams,
           (unsigned long long) total.settled, (unsigned long long) total.accepted, (unsigned long long)
                 total.received);
    printf("connections %llu (vanished %llu), links %llu, deaths of workers %llu, of cores %llu, of supervisors %llu\n",
           (unsigned long long) total.connections, (unsigned long long) total.vanished, (unsigned long long)
                 total.links,
           (unsigned long long) total.worker_deaths, (unsigned long long) total.core_deaths,
           (unsigned long long) total.supervisor_deaths);
    printf("messages to routers %llu, from routers %llu; links of who takes nothing %llu\n",
           (unsigned long long) total.to_routers, (unsigned long long) total.from_routers,
           (unsigned long long) total.idle);
    printf("messages by tables %llu, tables %llu; by source routes %llu, traced %llu\n",
           (unsigned long long) total.by_table, (unsigned long long) total.tables,
           (unsigned long long) total.by_route, (unsigned long long) total.detours);
}

#endif
