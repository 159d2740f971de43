/* tracefile.h - a file of Chrome trace events: spans, instants, arrows, counters, names of threads.
 *
 * Events may come in any order; closing sorts them by time, at equal times longer ones first, of
 * equal spans the one that came last, the rest as they came. Names come first. Times in ns here,
 * microseconds in the file. */
#ifndef AISIM_METRICS_TRACEFILE_H
#define AISIM_METRICS_TRACEFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "metrics/json.h"
#include "metrics/spool.h"

/** An argument of an event: a number, or a text where text is not NULL. */
typedef struct aisim_tracefile_arg {
    const char *key;
    double number;
    const char *text;
} aisim_tracefile_arg;

typedef struct aisim_tracefile_entry {
    int64_t t_ns, span_ns;
    aisim_spool_line line;
} aisim_tracefile_entry;

typedef struct aisim_tracefile {
    aisim_spool *spool;
    aisim_json line;
    AISIM_ARRAY(aisim_tracefile_entry) index;
    uint64_t max_events, lost;
    int64_t from_ns, until_ns; /**< events that touch [from, until) */
} aisim_tracefile;

/** Where an event stands. */
typedef struct aisim_tracefile_place {
    uint32_t process, thread;
} aisim_tracefile_place;

/** A span [begin, end]. args: n of them. */
void aisim_tracefile_span(aisim_tracefile *events, aisim_tracefile_place place, const char *name,
                          int64_t begin_ns, int64_t end_ns, const aisim_tracefile_arg *args,
                          uint32_t n);

/** A mark; of its process, in process 0 of its thread, or of everything for thread 0. */
void aisim_tracefile_instant(aisim_tracefile *events, aisim_tracefile_place place, const char *name,
                             int64_t t_ns);

/** One point of an arrow: a time inside of a span there. */
typedef struct aisim_tracefile_point {
    aisim_tracefile_place place;
    int64_t t_ns;
} aisim_tracefile_point;

/** An arrow from span to span: n >= 2 points in the order of time, all of them or none.
 *  @param id  its own, from 1
 *  @return  it was written: it lies in the window and there is room */
bool aisim_tracefile_arrow(aisim_tracefile *events, const char *name, uint64_t id,
                           const aisim_tracefile_point *points, uint32_t n);

/** Values of a counter from t on. */
void aisim_tracefile_counter(aisim_tracefile *events, uint32_t process, const char *name,
                             int64_t t_ns, const aisim_tracefile_arg *args, uint32_t n);

/** An arrow from one span to another, if both ends are wanted. id: not used by another one. */
void aisim_tracefile_flow(aisim_tracefile *events, const char *name, uint32_t id,
                          aisim_tracefile_place from, int64_t from_ns, aisim_tracefile_place to,
                          int64_t to_ns);

/** Name of a process, or of one of its threads (kind "process_name", "thread_name"). */
void aisim_tracefile_name(aisim_tracefile *events, aisim_tracefile_place place, const char *kind,
                          const char *name);

/** Writes the file and frees. @return AISIM_OK or AISIM_EIO */
aisim_status aisim_tracefile_close(aisim_tracefile *events, aisim_error *err);
void aisim_tracefile_discard(aisim_tracefile *events);

#endif
