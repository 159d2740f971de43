/* trace_traffic_parts.h - the state of a trace client; private to trace_traffic*.c. */
#ifndef AISIM_SIM_TRACE_TRAFFIC_PARTS_H
#define AISIM_SIM_TRACE_TRAFFIC_PARTS_H

#include "base/array.h"
#include "sim/trace_traffic.h"
#include "workload/trace_reuse.h"

/* What is kept of a row until its turn. */
typedef struct aisim_trace_pending {
    int64_t arrival_ns, delay_ns; /* -1 = not given */
    uint32_t input_tokens, output_tokens, kept_tokens;
    bool has_kept, delta;
    int32_t priority;
    uint32_t block_size, n_ids, n_output_ids;
    aisim_id_run *ids; /* of the prompt, then of the answer */
    char *name;        /* request id of the file, NULL = none */
    uint32_t session;  /* AISIM_NONE = a request of its own */
    uint32_t next;     /* of the same session, or in the free list */
} aisim_trace_pending;

typedef struct aisim_trace_session {
    uint64_t hash;
    char *name;           /* of the file */
    uint32_t first, last; /* rows that wait */
    uint32_t number;      /* of the simulation */
    uint16_t turns;       /* sent */
    bool started, busy, waiting;
    bool refused;       /* beyond the limit of units: its rows are dropped */
    int64_t end_ns;     /* of its last turn */
    aisim_node context; /* prompt and answer of the last turn; run holds a reference */
    uint32_t next;
} aisim_trace_session;

typedef struct aisim_trace_sent {
    uint32_t session; /* AISIM_NONE = none */
    int64_t ideal;
    char *name; /* of its row */
    uint32_t next;
} aisim_trace_sent;

typedef struct aisim_trace_client {
    aisim_sim *sim;
    aisim_trace *trace;
    aisim_trace_traffic_config config;
    uint16_t client, class_id;
    aisim_node space; /* ids of this file */
    AISIM_ARRAY(aisim_trace_pending) rows;
    AISIM_ARRAY(aisim_trace_session) sessions;
    AISIM_ARRAY(aisim_trace_sent) sent;
    uint32_t free_row, free_session, free_sent;
    aisim_map by_name;
    AISIM_ARRAY(uint32_t) fresh; /* rows that begin a unit */
    uint32_t fresh_at;
    AISIM_ARRAY(uint32_t) sorted; /* rows of a file out of order, by arrival */
    uint32_t sorted_at;
    bool in_memory, ended;
    aisim_pace pace;
    int64_t origin_ns;
    aisim_reuse_cache *ideal;
} aisim_trace_client;

/** Ends the traffic and the run with an error. */
void aisim_trace_give_up(aisim_trace_client *t, const aisim_error *err);

/** Reads one row and puts it where it waits. @return the row, AISIM_NONE at the end */
uint32_t aisim_trace_read_row(aisim_trace_client *t, bool *begins_unit);
void aisim_trace_drop_row(aisim_trace_client *t, uint32_t index);

/** The prompt of a row; its run has a reference for the caller. */
aisim_node aisim_trace_prompt(aisim_trace_client *t, const aisim_trace_pending *row,
                              uint32_t *tokens);
/** Tokens an endless cache would reuse, in whole blocks of the engine. */
int64_t aisim_trace_ideal(aisim_trace_client *t, const aisim_trace_pending *row, uint32_t tokens);
/** Returns the reference of a session's context. */
void aisim_trace_release(aisim_trace_client *t, aisim_node node);

#endif
