/* pace.h - when units of traffic start, when the traffic is over, and its warmup
 * (traffic 3.1, 3.5, 3.6).
 *
 * A *unit* is a request or a session. Units start either after gaps that somebody draws (open), or
 * so that a number of them is in flight (closed): a new one the moment one ends, or a think time
 * after it. The number may follow a line through (time, number); it is rounded down, rises start
 * units at once, falls take effect as units end. Who makes the units is the owner of the pace:
 *
 *     aisim_pace_init(&pace, sim, &config, owner, start_unit);      in the client's constructor
 *     aisim_pace_begin(&pace);                                      at the start of the run
 *     start_unit(owner): asks, submits with the phase of aisim_pace_sent, false = no more units
 *     aisim_pace_request_over(&pace, request), aisim_pace_unit_over(&pace)   at terminal events
 *
 * Warmup: what is sent before its end carries AISIM_PHASE_WARMUP and counts in no stop rule. With a
 * barrier nothing is sent between the end of the warmup and the moment when all of its requests
 * have succeeded and the copies between tiers have settled; whatever wants to be sent is held.
 * Times (until, levels, seconds) run from the start of the run. */
#ifndef AISIM_SIM_PACE_H
#define AISIM_SIM_PACE_H

#include "aisim/sim.h"
#include "base/array.h"
#include "workload/generators.h"

typedef struct aisim_pace_config {
    aisim_gap_source gaps; /**< open: between starts, the first one gap after the start; next NULL =
                                closed */
    const int64_t *level_times; /**< closed: ascending, ns; copied */
    const double *levels;       /**< closed: units in flight at each time, >= 0; copied */
    uint32_t n_levels;          /**< closed: >= 1 */
    aisim_gap_source think;     /**< closed: from the end of a unit to the next; next NULL = none */
    int64_t until_ns;           /**< nothing is sent at or after it; 0 or AISIM_NEVER = no limit */
    uint64_t requests;          /**< at most so many, warmup aside; 0 = no limit */
    uint64_t units;             /**< at most so many started, warmup aside; 0 = no limit */
    uint64_t tokens; /**< the request that brings prompt + output tokens to it is the last; 0 = no
                          limit */
    uint64_t warmup_requests; /**< the first so many are warmup; 0 = none */
    int64_t warmup_ns;        /**< what is sent before it is warmup; 0 = none */
    bool barrier;             /**< after the warmup */
} aisim_pace_config;

typedef enum {
    AISIM_PACE_SEND, /**< now */
    AISIM_PACE_HOLD, /**< not before the barrier opens: aisim_pace_hold */
    AISIM_PACE_OVER  /**< never: the traffic is over */
} aisim_pace_answer;

typedef enum { AISIM_PACE_WARMUP, AISIM_PACE_SETTLE, AISIM_PACE_MEASURED } aisim_pace_part;

typedef struct aisim_pace_held {
    aisim_timer_fn fn;
    void *context;
    void (*drop)(void *context);
} aisim_pace_held;

/** Embedded in a client; fields are private to pace.c. */
typedef struct aisim_pace {
    aisim_sim *sim;
    aisim_pace_config config;
    void *owner;
    bool (*start)(void *owner);
    aisim_pace_part part;
    bool over;      /* nothing is sent any more */
    bool exhausted; /* no unit starts any more; those under way go on */
    bool waits;     /* starts of units are held */
    uint32_t live;  /* closed: units in flight, thinking ones included */
    uint64_t requests, units, tokens;
    uint64_t warmup_sent, warmup_live;
    AISIM_ARRAY(aisim_pace_held) held;
} aisim_pace;

/** Takes the gap sources. @return AISIM_OK; AISIM_EINVAL (neither gaps nor levels, no limit at all
 *  when `endless`: the source itself never ends), AISIM_ERANGE. On error nothing is taken. */
aisim_status aisim_pace_init(aisim_pace *pace, aisim_sim *sim, const aisim_pace_config *config,
                             bool endless, void *owner, bool (*start)(void *owner),
                             aisim_error *err);
void aisim_pace_deinit(aisim_pace *pace);

/** At the start of the run. @param paced  false: units start by times of their own; only phases
 *  and limits are kept */
void aisim_pace_begin(aisim_pace *pace, bool paced);

/** May a request be sent now? `over` is sticky. O(1) */
aisim_pace_answer aisim_pace_ask(aisim_pace *pace);
/** Is everything held for the barrier? For requests that no limit ends. O(1) */
bool aisim_pace_holds(aisim_pace *pace);
/** Calls fn(context, sim, t) when the barrier opens; drop (NULL allowed) if that never happens. */
void aisim_pace_hold(aisim_pace *pace, aisim_timer_fn fn, void *context,
                     void (*drop)(void *context));
/** A request is being sent: counts it. @return its aisim_phase */
uint8_t aisim_pace_sent(aisim_pace *pace, uint64_t tokens);
/** May one more unit begin (its limit aside from those of requests)? */
bool aisim_pace_unit_allowed(const aisim_pace *pace);
/** A unit begins by a time of its own (not paced): counts it. */
void aisim_pace_unit_begun(aisim_pace *pace);
/** Draws a think time (config.think.next is set). @return false = no more */
bool aisim_pace_think(aisim_pace *pace, int64_t *think_ns);
/** A request has ended; before aisim_pace_unit_over. */
void aisim_pace_request_over(aisim_pace *pace, const aisim_request *request);
/** A unit has ended: closed traffic starts the next one. */
void aisim_pace_unit_over(aisim_pace *pace);
/** No more units; an error in err ends the run too. */
void aisim_pace_give_up(aisim_pace *pace, const aisim_error *err);

#endif
