/* compare_internal.h - the state of one comparison, shared by its three files. */
#ifndef AISIM_COMPARE_INTERNAL_H
#define AISIM_COMPARE_INTERNAL_H

#include "compare.h"
#include "compare_engine.h"

typedef struct compare_row {
    uint32_t serial; /* COMPARE_NONE = not accepted (yet) */
    bool submitted, ended, settled, admitted, resumed, was_running;
    uint32_t submitted_at, ended_at, handed_at;
    uint32_t before;   /* C before the plan */
    uint64_t *content; /* hash of the first i tokens */
} compare_row;

typedef struct compare_flight {
    uint32_t of_twin, of_engine; /* batches */
} compare_flight;

typedef struct compare_runner {
    const compare_case *c;
    compare_result *out;
    twin *twin, *engine;
    uint32_t pass;
    bool quiet;                         /* running requests are not looked at in this pass */
    bool in_flight;                     /* commands come between plan and complete */
    AISIM_ARRAY(compare_flight) flight; /* planned, not complete; several with overlap (R7) */
    const char *where;
    compare_row *rows;
    AISIM_ARRAY(uint32_t) by_serial; /* -> index of the request */
    uint32_t pending;                /* things that will still happen by themselves */
    twin_totals before;              /* of the twin, at the begin of the pass */
    int64_t now_ns, end_ns;          /* host tier: the clock; end of the pass in flight */
} compare_runner;

static inline void compare_count(compare_runner *r, compare_counter counter, uint64_t n)
{
    r->out->counters[counter] += n;
}

/* compare_same.c: each gives false after noting the first difference. */
bool compare_equal(compare_runner *r, const char *what, uint64_t of, uint64_t want, uint64_t have);
bool compare_same_plan(compare_runner *r);  /* after plan */
bool compare_same_shape(compare_runner *r); /* after compare_count_plan */
bool compare_same_end(compare_runner *r);   /* after complete */
bool compare_same_state(compare_runner *r); /* after every call; verifies both sides */
uint64_t *compare_hash_content(const compare_request *q);
uint32_t compare_reason_class(uint32_t reason);

bool compare_same_names(compare_runner *r, const char *what, const twin_name *want, uint32_t n_want,
                        const twin_name *have, uint32_t n_have);

/* compare_tier.c: no-ops without a host tier. */
bool compare_rest(compare_runner *r, bool idle);         /* time between passes */
bool compare_begin_flight(compare_runner *r, bool vain); /* after plan: middle of the pass */
void compare_end_flight(compare_runner *r);              /* before complete */
bool compare_peers(compare_runner *r);
bool compare_same_tier(compare_runner *r);

/* compare_count.c: what the pass reached. */
void compare_count_plan(compare_runner *r, bool defer);
void compare_count_cancel(compare_runner *r, const twin_view *view);
void compare_forget_victims(compare_runner *r); /* a victim is not resumed any more */
void compare_count_end(compare_runner *r);

#endif
