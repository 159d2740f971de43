/* handoff_support.h - a small deployment of prefill and decode workers, and what happens in it as
 * one line of text. */
#ifndef AISIM_TESTS_HANDOFF_SUPPORT_H
#define AISIM_TESTS_HANDOFF_SUPPORT_H

#include <stdarg.h>
#include <stdio.h>

#include "aisim/sim.h"
#include "base/clock.h"
#include "base/map.h"
#include "check.h"
#include "timing/timing.h"

/* ---- a small deployment -----------------------------------------------------------------------
 */

typedef struct setup {
    uint32_t prefill, decode;               /* workers, 1 */
    uint64_t prefill_blocks, decode_blocks; /* 100 */
    uint64_t context, decode_context;       /* 0 = no limit */
    aisim_handoff_config link;
} setup;

typedef struct story {
    char text[4096];
    size_t len;
    uint64_t bytes;
    uint32_t finished, rejected, cancelled;
} story;

static inline void say(story *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    s->len += (size_t)vsnprintf(s->text + s->len, sizeof s->text - s->len, format, args);
    va_end(args);
}

static inline void observe(void *context, const aisim_event *event)
{
    story *s = context;
    double t = aisim_ms_from_ns(event->t_ns);
    uint32_t id = event->request == NULL ? 0 : event->request->id;
    uint32_t at = event->rank == AISIM_NONE ? 0 : event->rank + 1;
    switch (event->type) {
    case AISIM_EV_ROUTE:
        say(s, "%g route %u>%u|", t, id, event->u.route.worker + 1);
        break;
    case AISIM_EV_ADMIT:
        say(s, "%g admit %u@%u reused %u waited %g|", t, id, at, event->u.admit.reused_tokens,
            aisim_ms_from_ns(event->u.admit.wait_ns));
        break;
    case AISIM_EV_FIRST_TOKEN:
        say(s, "%g first %u@%u|", t, id, at);
        break;
    case AISIM_EV_TRANSFER_START:
    case AISIM_EV_TRANSFER_END:
        say(s, "%g %s %u %u>%u %g kB|", t,
            event->type == AISIM_EV_TRANSFER_START ? "transfer" : "arrived", id,
            event->u.transfer.src + 1, event->u.transfer.dst + 1,
            (double)event->u.transfer.bytes / 1e3);
        s->bytes += event->type == AISIM_EV_TRANSFER_END ? event->u.transfer.bytes : 0;
        break;
    case AISIM_EV_FINISH:
        say(s, "%g %s %u@%u %u|", t, aisim_end_reason_text((aisim_end_reason)event->request->end),
            id, at, event->request->generated);
        s->finished += event->request->end != AISIM_END_CANCELLED;
        s->cancelled += event->request->end == AISIM_END_CANCELLED;
        break;
    case AISIM_EV_REJECT:
        say(s, "%g reject %u %s|", t, id,
            aisim_end_reason_text((aisim_end_reason)event->request->end));
        s->rejected++;
        break;
    case AISIM_EV_WORKER_STATE:
        say(s, "%g worker %u %s|", t, event->u.worker.worker + 1, event->u.worker.to);
        break;
    case AISIM_EV_PREEMPT:
        say(s, "%g preempt %u@%u|", t, id, at);
        break;
    default:
        break;
    }
}

static inline void add_pool(aisim_sim *sim, const char *name, aisim_role role, uint32_t workers,
                            uint64_t blocks, uint64_t context, double prefill_ms, double decode_ms)
{
    aisim_error err = {0};
    aisim_pool_config config = {.name = name, .role = role, .workers = workers > 0 ? workers : 1};
    aisim_rank_config_default(&config.rank);
    config.rank.kv.block_size = 4;
    config.rank.kv.blocks = blocks > 0 ? blocks : 100;
    config.rank.scheduler.context_length = context;
    CHECK(aisim_timing_fixed(prefill_ms, decode_ms, &config.timing, &err) == AISIM_OK);
    CHECK(aisim_sim_pool_add(sim, &config, NULL, &err) == AISIM_OK);
}

/* Prefill workers first; prefill passes 10 ms, decode passes 5 ms. */
static inline aisim_sim *make(const setup *s, story *l)
{
    aisim_sim *sim = aisim_sim_new(1);
    add_pool(sim, "prefill", AISIM_ROLE_PREFILL, s->prefill, s->prefill_blocks, s->context, 10, 5);
    add_pool(sim, "decode", AISIM_ROLE_DECODE, s->decode, s->decode_blocks,
             s->decode_context > 0 ? s->decode_context : s->context, 10, 5);
    aisim_sim_handoff(sim, &s->link);
    static const aisim_event_type wanted[] = {
        AISIM_EV_ROUTE,          AISIM_EV_ADMIT,        AISIM_EV_FIRST_TOKEN,
        AISIM_EV_TRANSFER_START, AISIM_EV_TRANSFER_END, AISIM_EV_FINISH,
        AISIM_EV_REJECT,         AISIM_EV_WORKER_STATE, AISIM_EV_PREEMPT};
    aisim_observer observer = {.context = l, .fn = observe};
    for (uint32_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        observer.mask |= AISIM_EV_BIT(wanted[i]);
    }
    aisim_observers *observers = aisim_sim_observers(sim);
    observers->list[observers->n++] = observer;
    aisim_observers_update(observers);
    return sim;
}

static inline aisim_handle submit(aisim_sim *sim, double at_ms, uint64_t name, uint32_t prompt,
                                  uint32_t output)
{
    aisim_error err = {0};
    aisim_handle handle;
    aisim_node node = aisim_content_append_named(aisim_sim_content(sim), AISIM_ROOT, name, prompt);
    aisim_submit request = {.at_ns = aisim_ns_from_ms(at_ms),
                            .content = node,
                            .prompt_tokens = prompt,
                            .output_tokens = output,
                            .client = AISIM_NO_CLIENT};
    CHECK(aisim_sim_submit(sim, &request, &handle, &err) == AISIM_OK);
    aisim_content_release(aisim_sim_content(sim), node.run);
    return handle;
}

/* To the end; nobody holds anything afterwards. */
static inline void run(aisim_sim *sim)
{
    aisim_error err = {0};
    aisim_run_options options = {.until_ns = AISIM_NEVER};
    CHECK(aisim_sim_run(sim, &options, &err) == AISIM_OK);
    CHECK_STR(err.text, "");
    aisim_sim_stats stats;
    aisim_sim_stats_get(sim, &stats);
    CHECK_EQ(stats.requests_live, 0);
    for (uint32_t i = 0; i < aisim_sim_ranks(sim); i++) {
        aisim_rank_view view;
        aisim_sim_rank(sim, i, &view);
        CHECK_EQ(view.kv_active, 0);
        CHECK_EQ(view.active_requests, 0);
        CHECK_EQ(view.active_prefill_tokens, 0);
        CHECK_EQ(view.waiting + view.running, 0);
    }
    aisim_sim_free(sim);
}

/* 1,000,000 bytes per token on 1 GB/s: a millisecond per token. */
static inline aisim_handoff_config millisecond_per_token(aisim_handoff_timing timing)
{
    return (aisim_handoff_config){.gb_per_second = 1, .bytes_per_token = 1e6, .timing = timing};
}

#define LINK_FULL millisecond_per_token(AISIM_HANDOFF_FULL_PROMPT)
#define LINK_MISSING millisecond_per_token(AISIM_HANDOFF_DESTINATION_MISSING)

#endif
