/* Route workers alone as one translation unit (shm/unity.h), beside the glue, steps.pyx, which calls it by single.h. */
#define ROUTERD_UNITY

#pragma GCC diagnostic ignored "-Wunused-function"     /* what only messages on connections need */

#include "workers/amqp/annotations_in.c"
#include "workers/amqp/annotations_put.c"
#include "workers/source_routes/body.c"
#include "workers/source_routes/meta.c"
#include "workers/source_routes/read.c"
#include "workers/source_routes/run.c"
#include "workers/source_routes/single.c"
#include "workers/source_routes/step.c"
#include "workers/source_routes/table.c"
#include "workers/source_routes/take.c"
#include "workers/source_routes/write.c"
