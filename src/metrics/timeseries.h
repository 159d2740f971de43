/* timeseries.h - timeseries.csv: the state of each worker at regular times, rates in between.
 *
 * The state (running, waiting, blocks, …) is handed over by whoever takes the sample, after all
 * events of that instant; the rates come from events, counted per worker since its last sample.
 * A sample changes nothing in the simulation. Rules: spec/report.md §4.
 *
 *     observers->list[observers->n++] = aisim_timeseries_observer(series);
 *     every interval, and at phase changes:
 *         for each worker: aisim_timeseries_sample(series, t, worker, &state);
 *     aisim_timeseries_text(series)   -> the CSV so far
 */
#ifndef AISIM_METRICS_TIMESERIES_H
#define AISIM_METRICS_TIMESERIES_H

#include <stdint.h>

#include "aisim/events.h"
#include "metrics/custom.h"
#include "metrics/json.h"

typedef struct aisim_timeseries aisim_timeseries;

/** State of a worker after all events of an instant. */
typedef struct aisim_timeseries_state {
    uint64_t running, waiting;
    uint64_t kv_used, kv_cached, kv_total; /**< blocks */
    uint64_t state_used; /**< blocks of recurrent state; UINT64_MAX = unknown, an empty field */
    uint64_t host_used;  /**< blocks in the host tier */
    uint64_t in_flight_clients, live_plays, router_queue; /**< of the whole run */
} aisim_timeseries_state;

/** @param rank_worker  worker of each rank, ranks entries, copied; both from 0 */
aisim_timeseries *aisim_timeseries_new(const uint32_t *rank_worker, uint32_t ranks);
void aisim_timeseries_free(aisim_timeseries *series); /**< NULL allowed */

aisim_observer aisim_timeseries_observer(aisim_timeseries *series);

/** Adds one column per metric of the scenario that was declared with `series`: the total of a
 *  counter, the value of a gauge, the number of values of a histogram, a ratio. Before the first
 *  sample; the metrics must live as long as the series. */
void aisim_timeseries_custom(aisim_timeseries *series, aisim_custom *custom);

/** One row. Times of one worker do not decrease; a second sample at the same time replaces nothing
 *  and is left out. */
void aisim_timeseries_sample(aisim_timeseries *series, int64_t t_ns, uint32_t worker,
                             const aisim_timeseries_state *state);

/** The file so far, header included; not terminated, valid until the next sample. */
const char *aisim_timeseries_text(const aisim_timeseries *series, uint32_t *size);

#endif
