/* decision_log.c - one line per decision, as it comes. */
#include "metrics/decision_log.h"

#include <math.h>

#include "metrics/spool.h"

struct aisim_decision_log {
    aisim_recorder *recorder;
    aisim_spool *spool;
    aisim_json line;
};

aisim_status aisim_decision_log_open(const char *path, aisim_decision_log **out, aisim_error *err)
{
    aisim_decision_log *log = aisim_alloc_zero(1, sizeof *log);
    aisim_status status = aisim_spool_open(path, &log->spool, err);
    if (status != AISIM_OK) {
        aisim_free(log);
        log = NULL;
    }
    *out = log;
    return status;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void put_number(aisim_json *json, const char *key, double value)
{
    aisim_json_key(json, key);
    aisim_json_double(json, value);
}

static void put_count(aisim_json *json, const char *key, uint64_t value)
{
    aisim_json_key(json, key);
    aisim_json_uint(json, value);
}

static void put_text(aisim_json *json, const char *key, const char *value)
{
    aisim_json_key(json, key);
    aisim_json_text(json, value);
}

/* An id: the text that somebody wrote, or the number. */
static void put_id(aisim_json *json, const char *key, const char *name, double number)
{
    if (name != NULL) {
        put_text(json, key, name);
    } else {
        put_number(json, key, number);
    }
}

static void put_request(aisim_json *json, const aisim_record *record)
{
    put_id(json, "request_id", record->name, record->request_id);
    put_text(json, "play_id", record->play_id);
    put_number(json, "play_ordinal", record->play_ordinal);
    put_number(json, "lane", record->lane);
    put_id(json, "session_id", record->session_name, record->session_id);
    bool root = record->root_session_id == record->session_id;
    put_id(json, "root_session_id", root ? record->session_name : NULL, record->root_session_id);
    put_number(json, "parent_session_id", record->parent_session_id);
    put_number(json, "turn", record->turn);
    put_text(json, "class", record->class_name);
    put_text(json, "phase", record->phase);
    put_number(json, "input_tokens", record->input_tokens);
}

/* Workers and ranks count from 1, the ranks within their worker. */
static void put_choice(aisim_json *json, const aisim_decision_facts *facts)
{
    put_text(json, "pool", facts->pool);
    put_text(json, "policy", facts->policy);
    put_text(json, "by", facts->by);
    put_count(json, "targets", facts->targets);
    put_count(json, "worker", facts->worker + UINT64_C(1));
    put_count(json, "rank", facts->rank_in_worker + UINT64_C(1));
    put_number(json, "cost", facts->cost);
    put_number(json, "overlap_blocks",
               facts->overlap_blocks < 0 ? (double)NAN : (double)facts->overlap_blocks);
    put_count(json, "overlap_chosen_blocks", facts->chosen_blocks);
    put_count(json, "overlap_best_blocks", facts->best_blocks);
    put_count(json, "regret_blocks", facts->best_blocks - facts->chosen_blocks);
    put_count(json, "best_worker", facts->best_worker + UINT64_C(1));
    put_count(json, "best_rank", facts->best_rank_in_worker + UINT64_C(1));
    put_count(json, "active_requests", facts->active_requests);
    put_count(json, "active_requests_min", facts->active_requests_min);
    put_count(json, "waiting", facts->waiting);
    put_count(json, "running", facts->running);
    put_count(json, "kv_used", facts->kv_used);
    put_count(json, "kv_total", facts->kv_total);
}

static void observe(void *context, const aisim_event *event)
{
    aisim_decision_log *log = context;
    aisim_json *json = &log->line;
    aisim_record record;
    double t_ms = aisim_recorder_name(log->recorder, event->request, event->t_ns, &record);
    json->text.len = 0;
    json->filled = false;
    aisim_json_begin(json, '{');
    put_number(json, "t_ms", t_ms);
    put_request(json, &record);
    put_number(json, "router_queue_ms", t_ms - record.arrival_ms);
    put_choice(json, event->u.decision);
    aisim_json_end(json, '}');
    aisim_json_raw(json, "\n", 1);
    aisim_spool_add(log->spool, json->text.data, json->text.len);
}

aisim_observer aisim_decision_log_observer(aisim_decision_log *log, aisim_recorder *recorder)
{
    log->recorder = recorder;
    return (aisim_observer){.mask = AISIM_EV_BIT(AISIM_EV_DECIDE),
                            .context = log,
                            .fn = observe,
                            .passive = true};
}

/* ---- the end --------------------------------------------------------------------------------- */

static void free_log(aisim_decision_log *log)
{
    aisim_json_free(&log->line);
    aisim_free(log);
}

aisim_status aisim_decision_log_close(aisim_decision_log *log, aisim_error *err)
{
    aisim_status status = aisim_spool_close(log->spool, NULL, 0, NULL, err); /* it is in order */
    free_log(log);
    return status;
}

void aisim_decision_log_discard(aisim_decision_log *log)
{
    if (log != NULL) {
        aisim_spool_discard(log->spool);
        free_log(log);
    }
}
