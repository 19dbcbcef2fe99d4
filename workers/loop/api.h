/* The functions that the glue (pump.pyx) may call: those that these headers mark as GLUE, and those of state/ and
 * shm/. */
#ifndef ROUTERD_WORKERS_API_H
#define ROUTERD_WORKERS_API_H

#include "shm/memory/layout.h"
#include "workers/amqp/amqp.h"
#include "workers/amqp/annotations.h"
#include "workers/loop/loop.h"
#include "workers/ockam/frame.h"
#include "workers/ockam/ockam.h"
#include "workers/rmr/rmr.h"
#include "workers/transport/transport.h"

#endif
