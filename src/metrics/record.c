/* record.c - the definitions of spec/report.md §1, each in one line.
 *
 * a arrival, d dispatch, m first admission, f first token, l last token, x terminal, n tokens. */
#include "metrics/record.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"

/* ---- outcomes -------------------------------------------------------------------------------- */

const char *aisim_outcome_text(aisim_outcome outcome)
{
    static const char *const names[AISIM_OUTCOMES] = {"completed", "failed", "rejected",
                                                      "cancelled", "in_flight"};
    return names[outcome];
}

aisim_outcome aisim_outcome_of(aisim_end_reason end)
{
    switch (end) {
    case AISIM_END_LENGTH:
    case AISIM_END_CONTEXT:
        return AISIM_OUTCOME_COMPLETED;
    case AISIM_END_CANCELLED:
        return AISIM_OUTCOME_CANCELLED;
    case AISIM_END_FAILED:
        return AISIM_OUTCOME_FAILED;
    case AISIM_END_NONE:
        return AISIM_OUTCOME_IN_FLIGHT;
    default:
        return AISIM_OUTCOME_REJECTED;
    }
}

/* The words of request.reject in spec/lua-api.md §6. */
static const char *failure_text(aisim_end_reason end)
{
    switch (end) {
    case AISIM_END_REJECTED_EMPTY:
        return "empty";
    case AISIM_END_REJECTED_CONTEXT:
        return "context";
    case AISIM_END_REJECTED_CAPACITY:
        return "capacity";
    case AISIM_END_REJECTED_ADMISSION:
        return "admission";
    case AISIM_END_REJECTED_ROUTER:
        return "router";
    case AISIM_END_FAILED:
        return "failed";
    default:
        return NULL;
    }
}

static const char *phase_text(uint8_t phase)
{
    return phase == AISIM_PHASE_PRIMER   ? "primer"
           : phase == AISIM_PHASE_WARMUP ? "warmup"
                                         : "profile";
}

/* ---- figures --------------------------------------------------------------------------------- */

/* Milliseconds from one time to another; undefined when either has not happened. */
static double between(int64_t from_ns, int64_t to_ns)
{
    return from_ns < 0 || to_ns < 0 ? NAN : aisim_ms_from_ns(to_ns - from_ns);
}

static double since_start(int64_t t_ns, int64_t start_ns)
{
    return t_ns < 0 ? NAN : aisim_ms_from_ns(t_ns - start_ns);
}

/* Events per second; undefined for no time. */
static double per_second(double count, double ms)
{
    return ms > 0 ? count / ms * 1000 : NAN;
}

static void fill_latencies(aisim_record *record, const aisim_request *request, int64_t t_ns)
{
    uint32_t n = request->generated;
    int64_t first_ns = n > 0 ? request->first_token_ns : -1;
    int64_t second_ns = n > 1 ? request->second_token_ns : -1;
    int64_t last_ns = n > 0 ? request->last_token_ns : -1;

    record->ttft_ms = between(request->arrival_ns, first_ns);
    record->ttst_ms = between(first_ns, second_ns);
    record->t2_ms = between(request->arrival_ns, second_ns);
    record->e2e_ms = between(request->arrival_ns, last_ns);
    record->decode_ms = between(first_ns, last_ns);
    record->itl_ms = n < 2 ? NAN : (double)(last_ns - first_ns) / (n - 1) / 1e6;
    record->judged_e2e_ms = n > 0 ? record->e2e_ms : between(request->arrival_ns, t_ns);

    record->queue_ms = between(request->arrival_ns, request->first_admit_ns);
    record->router_queue_ms = between(request->arrival_ns, request->dispatched_ns);
    record->engine_queue_ms = between(request->dispatched_ns, request->first_admit_ns);
    record->prefill_ms = between(request->first_admit_ns, first_ns);

    record->output_tok_s_per_user = n < 2 ? NAN : per_second(1, record->itl_ms);
    record->prefill_tok_s_per_user = per_second(request->prompt_tokens, record->ttft_ms);
    record->e2e_output_tok_s = per_second(n, record->e2e_ms);
    record->e2e_per_token_ms = n > 0 ? record->e2e_ms / n : NAN;
}

static void fill_counts(aisim_record *record, const aisim_request *request, int64_t t_ns)
{
    bool moved = (request->flags & AISIM_REQF_MOVED) != 0;
    uint32_t pools = moved ? 2 : request->admissions > 0;
    uint32_t readmissions = request->admissions - pools;
    int64_t stall_ns = request->stall_ns;
    if (request->preemptions > readmissions) {
        stall_ns += t_ns - request->waiting_since_ns; /* an open stall ends at the terminal event */
    }
    record->preempt_stall_ms = aisim_ms_from_ns(stall_ns);
    record->admissions = request->admissions;
    record->readmissions = readmissions;
    record->preemptions = request->preemptions;

    record->input_tokens = request->prompt_tokens;
    record->output_tokens = request->generated;
    record->requested_output_tokens = request->output_tokens;
    record->reused_tokens = request->max_reused;
    record->first_admission_reused_tokens = request->first_reused;
    record->host_reused_tokens = request->host_reused;
    record->device_reused_tokens = request->first_reused - request->host_reused;
    record->recomputed_tokens = request->recomputed;
    record->accept_len = 1;
    if (request->verifications > 0) {
        record->accept_len += (double)request->accepted_drafts / (double)request->verifications;
    }
}

void aisim_record_fill(aisim_record *record, const aisim_request *request, aisim_outcome outcome,
                       int64_t t_ns, int64_t start_ns)
{
    *record = (aisim_record){.outcome = outcome};
    record->request_id = request->id;
    record->play_ordinal = record->lane = NAN;
    record->root_session_id = record->parent_session_id = NAN;
    record->session_id = request->session == 0 ? NAN : (double)request->session;
    record->turn = request->turn;
    record->phase = phase_text(request->phase);
    record->status = aisim_outcome_text(outcome);
    record->failure = failure_text((aisim_end_reason)request->end);

    record->arrival_ms = since_start(request->arrival_ns, start_ns);
    record->dispatched_ms = since_start(request->dispatched_ns, start_ns);
    record->first_admit_ms = since_start(request->first_admit_ns, start_ns);
    bool tokens = request->generated > 0;
    record->first_token_ms = tokens ? since_start(request->first_token_ns, start_ns) : NAN;
    record->last_token_ms = tokens ? since_start(request->last_token_ns, start_ns) : NAN;
    bool over = outcome != AISIM_OUTCOME_IN_FLIGHT;
    record->terminal_ms = over ? since_start(t_ns, start_ns) : NAN;

    fill_latencies(record, request, t_ns);
    fill_counts(record, request, t_ns);
    record->ideal_reused_tokens = NAN;
    record->prefill_worker = record->decode_worker = record->transfer_bytes = NAN;
    record->prefill_router_queue_ms = record->decode_router_queue_ms = NAN;
    record->overlap_chosen_blocks = record->overlap_best_blocks = NAN;
    record->good = NAN;
}

/* ---- SLO ------------------------------------------------------------------------------------- */

bool aisim_slo_any(const aisim_slo *slo)
{
    return !isnan(slo->ttft_ms) || !isnan(slo->itl_ms) || !isnan(slo->e2e_ms);
}

/* An undefined value or an absent bound is no violation: comparisons with NaN are false. */
bool aisim_record_good(const aisim_record *record, const aisim_slo *slo)
{
    return !(record->ttft_ms > slo->ttft_ms || record->itl_ms > slo->itl_ms ||
             record->judged_e2e_ms > slo->e2e_ms);
}

/* ---- fields ---------------------------------------------------------------------------------- */

#define NUMBER(member)                                                                             \
    {                                                                                              \
#member, false, (uint32_t)offsetof(aisim_record, member)                                   \
    }
#define TEXT(key, member)                                                                          \
    {                                                                                              \
        key, true, (uint32_t)offsetof(aisim_record, member)                                        \
    }

static const aisim_record_field fields[] = {
    NUMBER(request_id),
    TEXT("play_id", play_id),
    NUMBER(play_ordinal),
    NUMBER(lane),
    NUMBER(session_id),
    NUMBER(root_session_id),
    NUMBER(parent_session_id),
    NUMBER(turn),
    TEXT("phase", phase),
    TEXT("status", status),
    NUMBER(arrival_ms),
    NUMBER(dispatched_ms),
    NUMBER(first_admit_ms),
    NUMBER(first_token_ms),
    NUMBER(last_token_ms),
    NUMBER(terminal_ms),
    NUMBER(ttft_ms),
    NUMBER(ttst_ms),
    NUMBER(itl_ms),
    NUMBER(e2e_ms),
    NUMBER(queue_ms),
    NUMBER(input_tokens),
    NUMBER(output_tokens),
    NUMBER(requested_output_tokens),
    NUMBER(reused_tokens),
    NUMBER(first_admission_reused_tokens),
    NUMBER(device_reused_tokens),
    NUMBER(host_reused_tokens),
    NUMBER(recomputed_tokens),
    NUMBER(admissions),
    NUMBER(preemptions),
    NUMBER(prefill_worker),
    NUMBER(decode_worker),
    NUMBER(transfer_bytes),
    NUMBER(overlap_chosen_blocks),
    NUMBER(overlap_best_blocks),
    NUMBER(accept_len),
    TEXT("failure", failure),
    TEXT("class", class_name),
    NUMBER(t2_ms),
    NUMBER(decode_ms),
    NUMBER(router_queue_ms),
    NUMBER(engine_queue_ms),
    NUMBER(prefill_ms),
    NUMBER(preempt_stall_ms),
    NUMBER(readmissions),
    NUMBER(output_tok_s_per_user),
    NUMBER(prefill_tok_s_per_user),
    NUMBER(e2e_output_tok_s),
    NUMBER(e2e_per_token_ms),
    NUMBER(ideal_reused_tokens),
    NUMBER(prefill_router_queue_ms),
    NUMBER(decode_router_queue_ms),
};

const aisim_record_field *aisim_record_field_at(uint32_t index)
{
    return index < sizeof fields / sizeof *fields ? &fields[index] : NULL;
}

double aisim_record_number(const aisim_record *record, const aisim_record_field *field)
{
    double value = NAN;
    if (!field->text) {
        memcpy(&value, (const char *)record + field->offset, sizeof value);
    }
    return value;
}

/* request_id and session_id are texts when the workload named them; a named session is a root. */
static const char *authored(const aisim_record *record, const aisim_record_field *field)
{
    switch (field->offset) {
    case offsetof(aisim_record, request_id):
        return record->name;
    case offsetof(aisim_record, session_id):
        return record->session_name;
    case offsetof(aisim_record, root_session_id):
        return record->root_session_id == record->session_id ? record->session_name : NULL;
    default:
        return NULL;
    }
}

const char *aisim_record_text(const aisim_record *record, const aisim_record_field *field)
{
    const char *value = NULL;
    if (field->text) {
        memcpy(&value, (const char *)record + field->offset, sizeof value);
        return value;
    }
    return authored(record, field);
}

void aisim_record_json(const aisim_record *record, aisim_json *json)
{
    aisim_json_begin(json, '{');
    for (uint32_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        aisim_json_key(json, fields[i].key);
        const char *text = aisim_record_text(record, &fields[i]);
        if (text != NULL || fields[i].text) {
            aisim_json_text(json, text);
        } else {
            aisim_json_double(json, aisim_record_number(record, &fields[i]));
        }
    }
    aisim_json_end(json, '}');
}
