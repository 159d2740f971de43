/* fair_link.c - equal shares, event by event. */
#include "host/fair_link.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/clock.h"

void aisim_fair_link_init(aisim_fair_link *link, double write_gbps, double read_gbps)
{
    *link = (aisim_fair_link){.rate = {write_gbps, read_gbps}};
}

void aisim_fair_link_deinit(aisim_fair_link *link)
{
    aisim_array_free(&link->clients);
    aisim_array_free(&link->jobs);
}

uint32_t aisim_fair_link_join(aisim_fair_link *link, double write_gbps, double read_gbps,
                              int64_t latency_ns)
{
    aisim_fair_client client = {.rate = {write_gbps, read_gbps}, .latency_ns = latency_ns};
    aisim_array_push(&link->clients, client);
    return link->clients.len - 1;
}

/* Bytes per nanosecond of a moving job; infinite without any limit. */
static double rate_of(const aisim_fair_link *link, const aisim_fair_job *job)
{
    const aisim_fair_client *client = &link->clients.data[job->client];
    double own = client->rate[job->direction], pool = link->rate[job->direction];
    double a = own > 0.0 ? own / client->moving[job->direction] : HUGE_VAL;
    double b = pool > 0.0 ? pool / link->moving[job->direction] : HUGE_VAL;
    return a < b ? a : b;
}

/* When the job's next event happens: its first byte or its arrival. */
static double event_of(const aisim_fair_link *link, const aisim_fair_job *job)
{
    if (!job->moving) {
        return job->first_byte_ns > link->now_ns ? job->first_byte_ns : link->now_ns;
    }
    return link->now_ns + job->left_bytes / rate_of(link, job);
}

/* The job whose event is next, the first submitted of several; jobs.len when the link is empty. */
static uint32_t next_job(const aisim_fair_link *link, double *when_ns)
{
    uint32_t best = link->jobs.len;
    *when_ns = HUGE_VAL;
    for (uint32_t i = 0; i < link->jobs.len; i++) {
        double event_ns = event_of(link, &link->jobs.data[i]);
        if (event_ns < *when_ns) {
            *when_ns = event_ns;
            best = i;
        }
    }
    return best;
}

int64_t aisim_fair_link_next(const aisim_fair_link *link)
{
    double when_ns;
    return next_job(link, &when_ns) == link->jobs.len ? AISIM_NEVER : llround(when_ns);
}

/* Moves the clock; nothing happens on the way. */
static void flow(aisim_fair_link *link, double to_ns)
{
    double dt_ns = to_ns - link->now_ns;
    for (uint32_t i = 0; i < link->jobs.len && dt_ns > 0.0; i++) {
        aisim_fair_job *job = &link->jobs.data[i];
        if (job->moving) {
            double left = job->left_bytes - rate_of(link, job) * dt_ns;
            job->left_bytes = left > 0.0 ? left : 0.0;
        }
    }
    link->now_ns = dt_ns > 0.0 ? to_ns : link->now_ns;
}

static void set_moving(aisim_fair_link *link, aisim_fair_job *job, bool moving)
{
    aisim_fair_client *client = &link->clients.data[job->client];
    job->moving = moving;
    client->moving[job->direction] += moving ? 1u : UINT32_MAX;
    link->moving[job->direction] += moving ? 1u : UINT32_MAX;
}

static void take_out(aisim_fair_link *link, uint32_t i)
{
    if (link->jobs.data[i].moving) {
        set_moving(link, &link->jobs.data[i], false);
    }
    aisim_array_remove(&link->jobs, i);
}

static int by_direction_and_id(const void *left, const void *right)
{
    const aisim_fair_done *a = left, *b = right;
    if (a->direction != b->direction) {
        return a->direction < b->direction ? -1 : 1;
    }
    return a->id < b->id ? -1 : a->id > b->id;
}

bool aisim_fair_link_step(aisim_fair_link *link, int64_t t_ns, int64_t *at_ns,
                          aisim_fair_dones *done)
{
    double when_ns;
    uint32_t i = next_job(link, &when_ns);
    done->len = 0;
    if (i == link->jobs.len || llround(when_ns) > t_ns) {
        flow(link, (double)t_ns);
        return false;
    }
    *at_ns = llround(when_ns);
    while (i < link->jobs.len && llround(when_ns) <= *at_ns) {
        flow(link, when_ns);
        aisim_fair_job *job = &link->jobs.data[i];
        if (!job->moving) {
            set_moving(link, job, true);
        } else {
            aisim_fair_done arrived = {job->id, job->tag, job->direction, job->client};
            aisim_array_push(done, arrived);
            take_out(link, i);
        }
        i = next_job(link, &when_ns);
    }
    if (done->len > 1) {
        qsort(done->data, done->len, sizeof *done->data, by_direction_and_id);
    }
    return true;
}

void aisim_fair_link_submit(aisim_fair_link *link, int64_t t_ns, uint64_t id, uint32_t tag,
                            uint32_t client, aisim_link_direction direction, double bytes)
{
    AISIM_CHECK(client < link->clients.len);
    flow(link, (double)t_ns);
    aisim_fair_job job = {.id = id,
                          .tag = tag,
                          .client = client,
                          .direction = direction,
                          .left_bytes = bytes,
                          .first_byte_ns = (double)(t_ns + link->clients.data[client].latency_ns)};
    aisim_array_push(&link->jobs, job);
}

bool aisim_fair_link_cancel(aisim_fair_link *link, int64_t t_ns, uint64_t id)
{
    for (uint32_t i = 0; i < link->jobs.len; i++) {
        if (link->jobs.data[i].id == id) {
            flow(link, (double)t_ns);
            take_out(link, i);
            return true;
        }
    }
    return false;
}
