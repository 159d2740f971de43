/* record.h - one request as the report sees it: every figure of spec/report.md §1 and §5.
 *
 * A record is computed once, at the terminal event, from the request itself; nothing is kept per
 * live request. Numbers that are undefined are NaN, texts NULL; both are null in JSON. The table
 * aisim_record_field() names the members for whoever walks them (JSON, columns, distributions). */
#ifndef AISIM_METRICS_RECORD_H
#define AISIM_METRICS_RECORD_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "aisim/events.h"
#include "metrics/json.h"

typedef enum {
    AISIM_OUTCOME_COMPLETED,
    AISIM_OUTCOME_FAILED,
    AISIM_OUTCOME_REJECTED,
    AISIM_OUTCOME_CANCELLED,
    AISIM_OUTCOME_IN_FLIGHT
} aisim_outcome;
enum { AISIM_OUTCOMES = 5 };

/** "completed", "failed", "rejected", "cancelled", "in_flight". */
const char *aisim_outcome_text(aisim_outcome outcome);

/** What an end counts as; a request at the context limit is completed. */
aisim_outcome aisim_outcome_of(aisim_end_reason end);

/** Bounds on request-level figures; NaN = none. tpot_ms of the input is itl_ms. */
typedef struct aisim_slo {
    double ttft_ms, itl_ms, e2e_ms;
} aisim_slo;

#define AISIM_SLO_NONE ((aisim_slo){(double)NAN, (double)NAN, (double)NAN})

/** Is any bound set? */
bool aisim_slo_any(const aisim_slo *slo);

typedef struct aisim_record {
    /* who; names come from the workload (annotate), NULL or NaN = none */
    double request_id;
    const char *name; /**< authored id, takes the place of the number */
    const char *play_id;
    double play_ordinal, lane;
    const char *session_name; /**< takes the place of the numbers of session and root */
    double session_id;        /**< NaN = none */
    double root_session_id, parent_session_id;
    double turn;
    const char *class_name;
    const char *phase, *status;
    /* when, ms after the measurement start */
    double arrival_ms, dispatched_ms, first_admit_ms, first_token_ms, last_token_ms, terminal_ms;
    /* how long */
    double ttft_ms, ttst_ms, t2_ms, itl_ms, e2e_ms, decode_ms;
    double queue_ms, router_queue_ms, engine_queue_ms, prefill_ms, preempt_stall_ms;
    double prefill_router_queue_ms, decode_router_queue_ms; /**< parts of a hand-off's */
    double output_tok_s_per_user, prefill_tok_s_per_user, e2e_output_tok_s, e2e_per_token_ms;
    /* how many */
    double input_tokens, output_tokens, requested_output_tokens;
    double reused_tokens, first_admission_reused_tokens, device_reused_tokens, host_reused_tokens;
    double ideal_reused_tokens, recomputed_tokens, admissions, readmissions, preemptions;
    double accept_len;
    /* where; workers from 1 */
    double prefill_worker, decode_worker, transfer_bytes;
    double overlap_chosen_blocks, overlap_best_blocks;
    const char *failure; /**< why it was rejected or failed */
    /* not exported */
    double judged_e2e_ms; /**< E2E for the SLO: to the terminal event without a token */
    double good; /**< meets the SLO of its class: 1 or 0; NaN = no SLO, or not of the cohort */
    aisim_outcome outcome;
    bool measured;
} aisim_record;

/** Computes everything that the request itself tells.
 *  @param t_ns     terminal event, or the end of the run for AISIM_OUTCOME_IN_FLIGHT
 *  @param start_ns measurement start */
void aisim_record_fill(aisim_record *record, const aisim_request *request, aisim_outcome outcome,
                       int64_t t_ns, int64_t start_ns);

/** Does a completed request meet all bounds? Equality meets; one token passes any ITL bound; no
 *  token is judged on E2E alone. */
bool aisim_record_good(const aisim_record *record, const aisim_slo *slo);

/** A member as others see it. */
typedef struct aisim_record_field {
    const char *key;
    bool text;       /**< member is const char *, otherwise double */
    uint32_t offset; /**< in aisim_record */
} aisim_record_field;

/** Fields of a request record, in the order of the file. @return NULL behind the last one. */
const aisim_record_field *aisim_record_field_at(uint32_t index);

/** Value of a number; NaN for a text. */
double aisim_record_number(const aisim_record *record, const aisim_record_field *field);
/** Value of a text; NULL for a number. */
const char *aisim_record_text(const aisim_record *record, const aisim_record_field *field);

/** Writes the record as one JSON object (no line feed). */
void aisim_record_json(const aisim_record *record, aisim_json *json);

#endif
