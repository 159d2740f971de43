/* l_agentx_report.c - the accounting of a replay in the report (spec/traffic.md §2.6): object
 * "agentx" with the options, the times, the ledger of plays and requests, every correction by an
 * idle guard. */
#include "base/clock.h"
#include "lua/l_agentx.h"

static void add_time(aisim_results *out, uint32_t parent, const char *key, int64_t t_ns)
{
    if (t_ns == AISIM_AGENTX_NO_TIME) {
        aisim_results_null(out, parent, key);
    } else {
        aisim_results_number(out, parent, key, aisim_ms_from_ns(t_ns));
    }
}

static void add_options(aisim_results *out, uint32_t parent, const aisim_agentx_config *c)
{
    uint32_t at = aisim_results_object(out, parent, "options");
    aisim_results_uint(out, at, "lanes", c->lanes);
    aisim_results_uint(out, at, "seed", c->seed);
    uint32_t t_star = aisim_results_array(out, at, "t_star");
    aisim_results_number(out, t_star, NULL, c->t_star[0]);
    aisim_results_number(out, t_star, NULL, c->t_star[1]);
    aisim_results_bool(out, at, "authored_gate", c->authored_gate);
    aisim_results_bool(out, at, "warmup", c->warmup);
    aisim_results_uint(out, at, "warmup_requests_per_lane", c->warmup_requests_per_lane);
    aisim_results_text(out, at, "warmup_mode",
                       c->warmup_mode == AISIM_WARMUP_ADVANCE ? "advance" : "repeat");
    uint32_t profile = aisim_results_object(out, at, "profile");
    aisim_results_number(out, profile, "duration_seconds", c->profile.duration_seconds);
    aisim_results_number(out, profile, "response_grace_seconds", c->profile.response_grace_seconds);
    aisim_results_number(out, profile, "cancel_drain_seconds", c->profile.cancel_drain_seconds);
    aisim_results_number(out, profile, "tree_idle_cap_seconds", c->profile.tree_idle_cap_seconds);
    aisim_results_number(out, profile, "global_idle_cap_seconds",
                         c->profile.global_idle_cap_seconds);
    aisim_results_number(out, at, "speedup", c->speedup);
    aisim_results_text(out, at, "cache_identity",
                       c->cache_identity == AISIM_IDENTITY_ISOLATED ? "isolated" : "after_system");
    aisim_results_text(out, at, "on_error",
                       c->on_error == AISIM_ON_ERROR_CONTINUE ? "continue" : "fail_play");
    aisim_results_bool(out, at, "once", c->once);
    if (c->until_ns > 0) { /* stop rules that were given */
        aisim_results_number(out, at, "until_ms", aisim_ms_from_ns(c->until_ns));
    }
    if (c->requests > 0) {
        aisim_results_uint(out, at, "requests", c->requests);
    }
    if (c->max_plays > 0) {
        aisim_results_uint(out, at, "sessions", c->max_plays);
    }
}

static void add_shifts(aisim_results *out, uint32_t parent, const aisim_agentx_report *r)
{
    uint32_t list = aisim_results_array(out, parent, "idle_shifts");
    for (uint32_t i = 0; i < r->n_shifts; i++) {
        const aisim_agentx_shift *shift = &r->shifts[i];
        uint32_t at = aisim_results_object(out, list, NULL);
        add_time(out, at, "at_ms", shift->at_ns);
        add_time(out, at, "shifted_by_ms", shift->shifted_by_ns);
        aisim_results_text(out, at, "guard", shift->global ? "global" : "tree");
        if (!shift->global) {
            aisim_results_uint(out, at, "lane", shift->lane);
            aisim_results_uint(out, at, "k", shift->k);
        }
        aisim_results_uint(out, at, "timers", shift->timers);
    }
}

void aisim_l_agentx_results(aisim_results *out, const char *key, const aisim_agentx_report *r)
{
    uint32_t at = aisim_results_object(out, 0, key);
    add_options(out, at, r->config);
    aisim_results_text(out, at, "phase", aisim_agentx_phase_name(r->phase));
    add_time(out, at, "primer_end_ms", r->primer_end_ns);
    add_time(out, at, "warmup_end_ms", r->warmup_end_ns);
    add_time(out, at, "barrier_ms", r->barrier_ns);
    add_time(out, at, "cutoff_ms", r->cutoff_ns);
    add_time(out, at, "grace_end_ms", r->grace_end_ns);
    add_time(out, at, "drain_end_ms", r->drain_end_ns);
    uint32_t plays = aisim_results_object(out, at, "plays");
    aisim_results_uint(out, plays, "started", r->plays_started);
    aisim_results_uint(out, plays, "client_completed", r->plays_client_completed);
    aisim_results_uint(out, plays, "failed", r->plays_failed);
    aisim_results_uint(out, plays, "retired", r->plays_retired);
    aisim_results_uint(out, plays, "server_quiescent", r->plays_server_quiescent);
    uint32_t requests = aisim_results_object(out, at, "requests");
    aisim_results_uint(out, requests, "planned", r->planned);
    aisim_results_uint(out, requests, "issued", r->issued);
    aisim_results_uint(out, requests, "successful", r->successful);
    aisim_results_uint(out, requests, "failed", r->failed);
    aisim_results_uint(out, requests, "cancelled", r->cancelled);
    aisim_results_uint(out, requests, "in_flight", r->in_flight);
    aisim_results_uint(out, requests, "never_issued", r->never_issued);
    aisim_results_uint(out, requests, "unsettled", r->unsettled);
    uint32_t preparation = aisim_results_object(out, at, "preparation");
    aisim_results_uint(out, preparation, "primer_requests", r->primer_requests);
    aisim_results_uint(out, preparation, "warmup_requests", r->warmup_requests);
    add_time(out, at, "first_request_ms", r->first_request_ns);
    add_time(out, at, "last_success_ms", r->last_success_ns);
    aisim_results_number(out, at, "observation_duration_ms", aisim_ms_from_ns(r->observation_ns));
    aisim_results_number(out, at, "throughput_rps", r->throughput_rps);
    aisim_results_uint(out, at, "corpus_cursor", r->corpus_cursor);
    add_shifts(out, at, r);
}
