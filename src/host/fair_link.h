/* fair_link.h - the link of a shared pool: jobs that move share it equally (spec/offload.md §4.2).
 *
 * A job that has passed its first-byte time moves, in its direction, at
 *     min(client rate / moving jobs of the client, pool rate / moving jobs of the pool)
 * and nothing is redistributed. Rates change at each submission, first byte, completion and
 * cancellation, so nobody knows a completion in advance. The link keeps its own clock with
 * fractions of a nanosecond; outside, an event happens at the nearest whole one. A job whose
 * completion is the event has moved everything: no residue is carried on.
 *
 * Cost: O(jobs in the link) per event. */
#ifndef AISIM_HOST_FAIR_LINK_H
#define AISIM_HOST_FAIR_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"

typedef enum { AISIM_LINK_WRITE, AISIM_LINK_READ } aisim_link_direction;

typedef struct aisim_fair_client {
    double rate[2]; /* by direction, bytes per nanosecond; 0 = unlimited */
    int64_t latency_ns;
    uint32_t moving[2];
} aisim_fair_client;

typedef struct aisim_fair_job {
    uint64_t id;
    uint32_t tag; /* the caller's */
    uint32_t client;
    aisim_link_direction direction;
    bool moving;
    double left_bytes;
    double first_byte_ns;
} aisim_fair_job;

typedef struct aisim_fair_link {
    double rate[2]; /* of the pool */
    uint32_t moving[2];
    double now_ns;
    AISIM_ARRAY(aisim_fair_client) clients;
    AISIM_ARRAY(aisim_fair_job) jobs;
} aisim_fair_link;

/** A job that has arrived. */
typedef struct aisim_fair_done {
    uint64_t id;
    uint32_t tag;
    aisim_link_direction direction;
    uint32_t client;
} aisim_fair_done;

typedef AISIM_ARRAY(aisim_fair_done) aisim_fair_dones;

void aisim_fair_link_init(aisim_fair_link *link, double write_gbps, double read_gbps);
void aisim_fair_link_deinit(aisim_fair_link *link);

/** @return number of the client */
uint32_t aisim_fair_link_join(aisim_fair_link *link, double write_gbps, double read_gbps,
                              int64_t latency_ns);

/** Time of the next event, AISIM_NEVER when the link is empty. It may be a first byte only. */
int64_t aisim_fair_link_next(const aisim_fair_link *link);

/** Lets the events of the next event time happen, if that is not after t_ns.
 *  @param at_ns  when they happened
 *  @param done   receives what arrived then (replaced): writes first, then by id
 *  @return false = nothing happens until t_ns; the clock stands at t_ns then */
bool aisim_fair_link_step(aisim_fair_link *link, int64_t t_ns, int64_t *at_ns,
                          aisim_fair_dones *done);

/** A job begins at t_ns; everything before has been stepped through. */
void aisim_fair_link_submit(aisim_fair_link *link, int64_t t_ns, uint64_t id, uint32_t tag,
                            uint32_t client, aisim_link_direction direction, double bytes);

/** The job leaves without arriving. @return false = no such job */
bool aisim_fair_link_cancel(aisim_fair_link *link, int64_t t_ns, uint64_t id);

#endif
