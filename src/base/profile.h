/* profile.h - where the wall time of a run goes: a stop watch that is always in one part.
 *
 * Entering a part stops the time of the one before, so parts add up to the whole and a part's time
 * is its own, without what it calls in other parts. Nobody asks: the pointer is NULL and a part
 * costs one test. The figures are wall time and belong into wall.json, never into a report. */
#ifndef AISIM_BASE_PROFILE_H
#define AISIM_BASE_PROFILE_H

#include <stddef.h>
#include <stdint.h>

/** X(NAME, "name") */
#define AISIM_PART_LIST(X)                                                                         \
    X(SIM, "sim")         /* the event loop, arrivals, traffic */                                  \
    X(ROUTER, "router")   /* built-in policies */                                                  \
    X(SCHED, "sched")     /* planning and completing passes */                                     \
    X(TIMING, "timing")   /* prices of passes */                                                   \
    X(KV, "kv")           /* lookups, allocation, eviction */                                      \
    X(HOST, "host")       /* transfers of the host tier */                                         \
    X(METRICS, "metrics") /* observers, the way to hooks included */                               \
    X(LUA, "lua")         /* the script */

typedef enum {
#define X(name, text) AISIM_PART_##name,
    AISIM_PART_LIST(X)
#undef X
        AISIM_PART_COUNT
} aisim_part;

typedef struct aisim_profile {
    uint64_t calls[AISIM_PART_COUNT];
    int64_t ns[AISIM_PART_COUNT];
    aisim_part current;
    int64_t since_ns; /**< clock when the current part began or went on */
} aisim_profile;

/** Starts the watch, in part SIM. */
void aisim_profile_start(aisim_profile *profile);

/** Stops the time of the current part and starts that of another. @return the former */
aisim_part aisim_profile_switch(aisim_profile *profile, aisim_part to);

/** "sched" */
const char *aisim_part_text(aisim_part part);

/** A part begins; profile NULL = nobody asks. @return what to give to aisim_part_leave */
static inline aisim_part aisim_part_enter(aisim_profile *profile, aisim_part part)
{
    if (profile == NULL) {
        return AISIM_PART_SIM;
    }
    profile->calls[part]++;
    return aisim_profile_switch(profile, part);
}

static inline void aisim_part_leave(aisim_profile *profile, aisim_part before)
{
    if (profile != NULL) {
        aisim_profile_switch(profile, before);
    }
}

#endif
