/* twin_host.h - the host tier of the twin, block by block (spec/offload.md).
 *
 * twin_host.c       blocks in host memory, transfers, both kinds of links
 * twin_connector.c  what the scheduler does with them: stores, lookups, loads, who waits
 *
 * Host blocks are one list, looked through from the front for everything; a transfer lists its
 * identities one by one. The second client of a shared pool (the peer) has no rank: it stores and
 * loads what the caller says. */
#ifndef AISIM_TWIN_HOST_H
#define AISIM_TWIN_HOST_H

#include "twin_internal.h"

/** One block in host memory. Victims: smallest (epoch, place) first. */
typedef struct twin_hosted {
    uint32_t node;
    bool pending;
    uint32_t pins;
    uint64_t epoch;
    uint32_t place; /* inside its cohort */
} twin_hosted;

typedef struct twin_job {
    uint64_t id;
    bool load, peer;
    uint32_t serial; /* owner */
    bool submitted, arrived, withdrawn;
    int64_t start_ns; /* not before */
    int64_t done_ns;  /* AISIM_NEVER = not known */
    twin_ids nodes;
    twin_ids sources; /* store: device blocks that are read and not handed on yet */
    uint64_t arrival; /* order of arrival */
    uint64_t order;   /* order of submission */
    bool moving;      /* shared link: past its first byte */
    double left, first_byte_ns;
} twin_job;

typedef struct twin_host_change {
    bool stored;
    uint32_t node;
} twin_host_change;

typedef enum { TWIN_SLEEPING, TWIN_AWAKE, TWIN_LOADING, TWIN_LOADED } twin_stage;

typedef struct twin_waiter {
    uint32_t serial;
    twin_stage stage;
    uint64_t job; /* id of its load */
    uint32_t device, loaded;
    int64_t start_ns;
} twin_waiter;

typedef struct twin_host {
    AISIM_ARRAY(twin_hosted) blocks;
    AISIM_ARRAY(twin_job) jobs;
    AISIM_ARRAY(twin_waiter) waiters;
    AISIM_ARRAY(twin_host_change) changes;
    uint64_t next_id, epoch, evicted, stored, arrivals, submissions;
    int64_t lane_ns[2];           /* T: stores, loads */
    double link_ns;               /* clock of the shared link */
    int64_t fence_ns;             /* compute_not_before */
    int64_t taken_ns;             /* latest end of a copy whose source was handed on */
    AISIM_ARRAY(twin_name) order; /* for the view */
    AISIM_ARRAY(twin_host_event) told;
    AISIM_ARRAY(twin_pair) queue;
} twin_host;

/* twin_host.c */
void twin_host_free(twin *t);
twin_hosted *twin_hosted_find(const twin *t, uint32_t node);
/** Reserves what is missing of nodes. @return 0 = nothing missing, 1 = done, 2 = retry */
int twin_host_admit(twin *t, const twin_ids *nodes, twin_ids *missing);
twin_job *twin_job_new(twin *t, bool load, bool peer, uint32_t serial, const twin_ids *nodes);
void twin_job_submit(twin *t, twin_job *job);
void twin_job_drop(twin *t, uint32_t at);
void twin_host_pin(twin *t, const twin_ids *nodes);
void twin_host_unpin(twin *t, const twin_ids *nodes);
/** Newest from now on, if resident and without pins. */
void twin_host_touch(twin *t, uint32_t node);
/** The host side of everything that ends by then. */
void twin_host_flow(twin *t, int64_t t_ns);
void twin_link_cancel(twin *t, const twin_job *job);

/* twin_connector.c */
uint32_t twin_connector_head(const twin *t);
uint32_t twin_connector_ready(const twin *t);
/** Stores wait for the end of the pass in flight. */
bool twin_connector_preparing(const twin *t);
twin_waiter *twin_waiter_of(const twin *t, uint32_t serial);
/** 0 = go on with the hit, 1 = next head, 2 = stop */
int twin_connector_examine(twin *t, twin_request *r, twin_hit *hit);
uint32_t twin_footprint(const twin *t, const twin_request *r);
uint64_t twin_headroom(const twin *t);
void twin_connector_close(twin *t);
void twin_connector_end(twin *t);
/** What has arrived is told to the rank, what was withdrawn is cancelled. @return anybody woken */
bool twin_connector_tell(twin *t);
void twin_connector_leave(twin *t, twin_request *r);
void twin_connector_handed_on(twin *t, uint32_t block);
void twin_connector_reset(twin *t);
void twin_host_verify(const twin *t, uint32_t *refs);
bool twin_gate(const twin *t, const twin_request *r, const twin_hit *hit, bool load);
uint32_t twin_reserve_blocks(const twin *t);

#endif
