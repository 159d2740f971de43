/* host_stream.h - the stores of one long prefill, pass after pass, without touching the pool in
 * between.
 *
 * While a prefill is the only one that stores, what its passes do to the pool is known beforehand:
 * each reserves the next stretch of one content run, throws out as many of the oldest blocks, and
 * lands when its lane is done. A *stream* keeps only the times of these stores and brings the pool
 * up to date when it is closed; until then nobody else may look at the pool. The pool, the lanes,
 * the transfer numbers and the totals are then exactly those of the single stores (spec/offload.md
 * §4.1, §5, §6). Private groups only. */
#ifndef AISIM_HOST_HOST_STREAM_H
#define AISIM_HOST_HOST_STREAM_H

#include "host/host.h"

enum { AISIM_STREAM_MOVING = 8, AISIM_STREAM_DEPTH = 8 };

/** One store of a stream. */
typedef struct aisim_streamed {
    uint64_t id;
    uint32_t first, end; /* blocks of the run */
    int64_t prepared_ns, begin_ns, done_ns;
} aisim_streamed;

typedef struct aisim_host_stream {
    aisim_host *host;
    uint32_t run;        /* holds every block of the stream */
    uint32_t leaf, keys; /* of the path whose first `keys` blocks a store touches (§10) */
    uint32_t slot, request_id;
    uint32_t first;   /* blocks from here on are the stream's */
    uint32_t planned; /* blocks below are prepared */
    uint32_t landed;  /* blocks below have arrived */
    uint32_t touched; /* blocks below had arrived when a store last touched the prompt (§10) */
    bool touch_due;   /* … and the pool has not seen that touch */
    uint64_t room;    /* free blocks and victims that are not of this prompt */
    uint32_t n, head; /* moving stores: a ring */
    bool open_store;  /* the last one waits for its pass end */
    aisim_streamed moving[AISIM_STREAM_MOVING];
    AISIM_ARRAY(aisim_streamed) single; /* landed since: each a cohort of its own */
} aisim_host_stream;

/** Opens a stream that may store blocks [first, most) of `run`, which is on the path of `leaf`.
 *  @param ids  of the request that stores, and of the others that keep their blocks on the device
 *              as long as the stream is open: stores of them may be under way
 *  @return false: the pool has some of the blocks, another transfer is under way, or the path is
 *  deeper than AISIM_STREAM_DEPTH; nothing to close. O(extents that would be thrown out) */
bool aisim_host_stream_open(aisim_host_stream *stream, aisim_host *host, uint32_t leaf,
                            uint32_t run, uint32_t first, uint32_t most, uint32_t keys,
                            uint32_t slot, const uint32_t ids[], uint32_t n);

/** Whether the next store may reach up to block `end`. O(1) */
static inline bool aisim_host_stream_fits(const aisim_host_stream *stream, uint32_t end)
{
    return end - stream->first <= stream->room && stream->n < AISIM_STREAM_MOVING;
}

/** Prepares the store of everything below `end` (§5); it must fit. O(1) */
void aisim_host_stream_prepare(aisim_host_stream *stream, uint32_t end, int64_t t_ns);

/** The pass has ended: a prepared store is submitted. O(1) */
void aisim_host_stream_submit(aisim_host_stream *stream, int64_t t_ns);

/** The oldest store of the stream if it is done by t; it counts as landed. O(1) */
bool aisim_host_stream_done(aisim_host_stream *stream, int64_t t_ns, aisim_streamed *out);

/** Before a store from before the stream lands: the pool gets the touches it has not seen. */
void aisim_host_stream_before_landing(aisim_host_stream *stream);

/** Brings the pool up to date. Stores that still move become jobs, in order.
 *  @param moved  called for each of them; its blocks are still being read */
void aisim_host_stream_close(aisim_host_stream *stream,
                             void (*moved)(void *context, uint32_t job, aisim_streamed store),
                             void *context);

#endif
