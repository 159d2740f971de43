/* host_stream.c - see host_stream.h.
 *
 * Why the order of eviction comes out the same: victims are older than every block of the prompt
 * (checked at the begin), so it does not matter that the prompt's blocks enter the list later. A
 * store that touches its prompt moves all that has landed to the young end in one order, so only
 * the last touch counts. Where stores touch nothing, each lands by itself, in its order. */
#include "host/host_stream.h"

#include "base/check.h"
#include "base/clock.h"

/* ---- begin ----------------------------------------------------------------------------------- */

static bool among(uint32_t id, const uint32_t ids[], uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

/* All transfers under way are stores of these requests, and prepared ones there are none. They land
 * before the first one of the stream: one lane, in order. */
static bool alone(const aisim_host *host, const uint32_t ids[], uint32_t n)
{
    const aisim_host_group *group = host->group;
    if (host->prepared.first != AISIM_NONE || host->lane[AISIM_HOST_LOAD].first != AISIM_NONE ||
        host->loads.len > 0) {
        return false;
    }
    for (uint32_t i = host->lane[AISIM_HOST_STORE].first; i != AISIM_NONE;
         i = group->jobs.data[i].next) {
        const aisim_host_job *job = &group->jobs.data[i];
        if (!among(job->request_id, ids, n) || job->withdrawn ||
            job->state != AISIM_HOST_JOB_MOVING) {
            return false;
        }
    }
    return true;
}

/* The runs from the leaf to the root. @return 0: too many */
static uint32_t path_of(const aisim_content *content, uint32_t leaf, uint32_t path[])
{
    uint32_t n = 0;
    for (uint32_t r = leaf; r != AISIM_NONE; r = aisim_content_parent(content, r)) {
        if (n == AISIM_STREAM_DEPTH) {
            return 0;
        }
        path[n++] = r;
    }
    return n;
}

bool aisim_host_stream_open(aisim_host_stream *stream, aisim_host *host, uint32_t leaf,
                            uint32_t run, uint32_t first, uint32_t most, uint32_t keys,
                            uint32_t slot, const uint32_t ids[], uint32_t n)
{
    aisim_host_pool *pool = &host->group->pool;
    uint32_t path[AISIM_STREAM_DEPTH];
    uint32_t depth = path_of(pool->content, leaf, path);
    bool looks =
        host->price.price != NULL && !host->price.pure; /* at ranks, which are stale then */
    if (host->group->shared || pool->listening || looks || depth == 0 || !alone(host, ids, n) ||
        aisim_host_pool_deepest(pool, run) > first) {
        return false;
    }
    uint64_t free = pool->capacity - pool->used, wanted = most > first ? most - first : 0;
    *stream = (aisim_host_stream){.host = host,
                                  .run = run,
                                  .leaf = leaf,
                                  .keys = keys,
                                  .slot = slot,
                                  .request_id = ids[0],
                                  .first = first,
                                  .planned = first,
                                  .landed = first,
                                  .touched = first,
                                  .room = free};
    if (wanted > free) {
        stream->room += aisim_host_pool_victims(pool, path, depth, wanted - free);
    }
    return true;
}

/* ---- passes ---------------------------------------------------------------------------------- */

static aisim_streamed *moving_at(aisim_host_stream *stream, uint32_t i)
{
    return &stream->moving[(stream->head + i) % AISIM_STREAM_MOVING];
}

void aisim_host_stream_prepare(aisim_host_stream *stream, uint32_t end, int64_t t_ns)
{
    AISIM_ASSERT(end > stream->planned && aisim_host_stream_fits(stream, end));
    aisim_streamed store = {.id = stream->host->group->next_id++,
                            .first = stream->planned,
                            .end = end,
                            .prepared_ns = t_ns,
                            .done_ns = AISIM_NEVER};
    *moving_at(stream, stream->n++) = store;
    stream->planned = end;
    stream->open_store = true;
    if (stream->host->config.touch_prompt_on_store) { /* what has landed melts into one order */
        stream->touched = stream->landed;
        stream->touch_due = true;
        stream->single.len = 0;
    }
}

void aisim_host_stream_submit(aisim_host_stream *stream, int64_t t_ns)
{
    if (!stream->open_store) {
        return;
    }
    aisim_host *host = stream->host;
    aisim_streamed *store = moving_at(stream, stream->n - 1);
    uint32_t blocks = store->end - store->first;
    stream->open_store = false;
    store->begin_ns = t_ns;
    store->done_ns = aisim_host_move(host, AISIM_HOST_STORE, blocks, t_ns);
    host->totals.jobs[AISIM_HOST_STORE]++;
    host->totals.blocks[AISIM_HOST_STORE] += blocks;
}

bool aisim_host_stream_done(aisim_host_stream *stream, int64_t t_ns, aisim_streamed *out)
{
    if (stream->n == 0 || moving_at(stream, 0)->done_ns > t_ns) {
        return false;
    }
    aisim_host *host = stream->host;
    *out = *moving_at(stream, 0);
    stream->head++;
    stream->n--;
    stream->landed = out->end;
    host->totals.completed[AISIM_HOST_STORE]++;
    host->totals.transfer_ns[AISIM_HOST_STORE] += out->done_ns - out->begin_ns;
    aisim_array_push(&stream->single, *out);
    return true;
}

/* ---- end ------------------------------------------------------------------------------------- */

static void touch(aisim_host_stream *stream)
{
    if (stream->touch_due) {
        aisim_host_touch(stream->host->group, stream->leaf, 0, stream->keys);
        stream->touch_due = false;
    }
}

void aisim_host_stream_before_landing(aisim_host_stream *stream)
{
    AISIM_ASSERT(stream->landed == stream->first);
    touch(stream);
}

static void admit(aisim_host_stream *stream, uint32_t first, uint32_t end,
                  aisim_host_stretches *cohort)
{
    aisim_host_stretch range = {stream->run, first, end - first};
    aisim_host_admission result =
        aisim_host_pool_admit(&stream->host->group->pool, &range, 1, cohort);
    AISIM_CHECK(result == AISIM_HOST_PREPARED && cohort->len == 1);
}

static void land(aisim_host_stream *stream, uint32_t first, uint32_t end)
{
    aisim_host_pool *pool = &stream->host->group->pool;
    aisim_host_stretches *scratch = &stream->host->group->path;
    admit(stream, first, end, scratch);
    aisim_host_pool_land(pool, scratch->data, scratch->len);
}

void aisim_host_stream_close(aisim_host_stream *stream,
                             void (*moved)(void *context, uint32_t job, aisim_streamed store),
                             void *context)
{
    if (stream->touched > stream->first) {
        land(stream, stream->first, stream->touched);
    }
    touch(stream);
    for (uint32_t i = 0; i < stream->single.len; i++) {
        land(stream, stream->single.data[i].first, stream->single.data[i].end);
    }
    aisim_array_free(&stream->single);
    for (uint32_t i = 0; i < stream->n; i++) {
        aisim_streamed store = *moving_at(stream, i);
        uint32_t job = aisim_host_adopt(stream->host, stream->slot, stream->request_id, store.id,
                                        store.prepared_ns, store.begin_ns, store.done_ns);
        admit(stream, store.first, store.end, &stream->host->group->jobs.data[job].cohort);
        stream->host->group->jobs.data[job].blocks = store.end - store.first;
        moved(context, job, store);
    }
}
