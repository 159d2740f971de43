/* aisim.h - the whole C interface of the engine (libaisim.a).
 *
 * sim.h      one simulation: pools, requests, routing, timers, run
 * config.h   what a rank is built from, every default named
 * timing.h   how long a pass takes
 * content.h  what prompts consist of, so that shared prefixes are shared
 * events.h   what an observer hears; request.h is what it may look at
 * points.h   decisions of the scheduler that somebody else may take
 * route.h    the built-in routers
 * status.h   status codes and the error record; clock.h has the units of time
 *
 * A whole program: examples/embed.c. Lua is not needed; scenarios, workload recipes, metrics and
 * reports live in the Lua module and the program. */
#ifndef AISIM_AISIM_H
#define AISIM_AISIM_H

#include "aisim/clock.h"
#include "aisim/config.h"
#include "aisim/content.h"
#include "aisim/events.h"
#include "aisim/points.h"
#include "aisim/request.h"
#include "aisim/route.h"
#include "aisim/sim.h"
#include "aisim/status.h"
#include "aisim/timing.h"

#endif
