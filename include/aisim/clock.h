/* clock.h - units of virtual time: whole nanoseconds (A1), as int64_t. */
#ifndef AISIM_CLOCK_H
#define AISIM_CLOCK_H

#include <stdint.h>

#define AISIM_NS_PER_MS INT64_C(1000000)
#define AISIM_NS_PER_S INT64_C(1000000000)

/** Later than every event (146 years). Half of what fits, so that two times may be added. */
#define AISIM_NEVER (INT64_MAX / 2)

#endif
