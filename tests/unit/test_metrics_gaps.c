/* test_metrics_gaps.c - pooled gaps by difference arrays against every token of every request.
 *
 * A small random engine: ranks, passes of random length (also 0), requests that skip passes,
 * deliver bursts, move to another rank, are cancelled or stay live. It reports gaps as
 * aisim/events.h says; the test keeps all token times and pools those of the requests that count.
 */
#include "base/rng.h"
#include "check.h"
#include "metrics/gaps.h"

enum { RANKS = 3, LIVE = 12, TOKENS = 1 << 12 };

typedef struct {
    uint32_t id, rank, left, n;
    uint64_t last_pass; /* number of the delivering pass of its rank that served it last */
    int64_t times[TOKENS];
    bool measured;
} subject;

typedef struct {
    aisim_rng rng;
    aisim_gaps gaps;
    aisim_digest want;
    subject live[LIVE];
    int64_t now_ns[RANKS], previous_ns[RANKS];
    uint64_t passes[RANKS]; /* delivering passes */
    uint32_t next_id;
} machine;

static void begin(machine *m, subject *s)
{
    *s = (subject){.id = m->next_id++,
                   .rank = (uint32_t)aisim_rng_below(&m->rng, RANKS),
                   .left = 1 + (uint32_t)aisim_rng_below(&m->rng, 400),
                   .measured = aisim_rng_below(&m->rng, 5) > 0};
}

static void over(machine *m, subject *s, bool counts)
{
    int64_t last_ns = s->n > 0 ? s->times[s->n - 1] : -1;
    aisim_gaps_over(&m->gaps, s->id, last_ns, s->n, counts);
    for (uint32_t i = 1; counts && s->measured && i < s->n; i++) {
        aisim_digest_add(&m->want, (double)(s->times[i] - s->times[i - 1]) / 1e6, 1);
    }
    begin(m, s);
}

/* Delivers tokens of one request in a pass. @return whether it shares the gap of the pass. */
static bool deliver(machine *m, subject *s, int64_t t_ns)
{
    uint32_t n = aisim_rng_below(&m->rng, 8) == 0 ? 3 : 1;
    n = n < s->left ? n : s->left;
    bool shares = s->n > 0 && s->last_pass == m->passes[s->rank];
    if (s->n == 0 && s->measured) {
        aisim_gaps_first(&m->gaps, s->id, s->rank, t_ns);
    } else if (s->n > 0 && !shares) {
        aisim_gaps_irregular(&m->gaps, s->id, s->rank, t_ns, t_ns - s->times[s->n - 1]);
    }
    for (uint32_t i = 0; i < n; i++) {
        s->times[s->n++] = t_ns;
    }
    s->left -= n;
    s->last_pass = m->passes[s->rank] + 1;
    return shares;
}

static void pass(machine *m, uint32_t rank)
{
    int64_t t_ns = m->now_ns[rank] + (int64_t)aisim_rng_below(&m->rng, 4) * 5000;
    m->now_ns[rank] = t_ns;
    uint32_t shared = 0, served = 0;
    for (uint32_t i = 0; i < LIVE; i++) {
        subject *s = &m->live[i];
        if (s->rank == rank && aisim_rng_below(&m->rng, 12) > 0) {
            shared += deliver(m, s, t_ns);
            served++;
        }
    }
    for (uint32_t i = 0; i < LIVE; i++) {
        if (m->live[i].rank == rank && m->live[i].left == 0) {
            over(m, &m->live[i], true);
        }
    }
    if (shared > 0) {
        aisim_gaps_pass(&m->gaps, rank, t_ns, t_ns - m->previous_ns[rank]);
    }
    if (served > 0) {
        m->previous_ns[rank] = t_ns;
        m->passes[rank]++;
    }
}

/* Cancels one, or moves one to a rank whose clock is not behind its last token. */
static void disturb(machine *m)
{
    subject *s = &m->live[aisim_rng_below(&m->rng, LIVE)];
    uint32_t rank = (uint32_t)aisim_rng_below(&m->rng, RANKS);
    if (aisim_rng_below(&m->rng, 2) == 0) {
        over(m, s, false);
    } else if (s->n == 0 || m->now_ns[rank] >= s->times[s->n - 1]) {
        s->rank = rank;
        s->last_pass = UINT64_MAX;
    }
}

static void random_machine(uint64_t seed, uint32_t steps)
{
    static machine m;
    m = (machine){.rng = aisim_rng_named(seed, "gaps"), .next_id = 1};
    aisim_gaps_init(&m.gaps, AISIM_PERCENTILE_LINEAR, 0);
    aisim_digest_init(&m.want, AISIM_PERCENTILE_LINEAR, 0);
    for (uint32_t i = 0; i < LIVE; i++) {
        begin(&m, &m.live[i]);
    }
    for (uint32_t i = 0; i < steps; i++) {
        pass(&m, (uint32_t)aisim_rng_below(&m.rng, RANKS));
        if (aisim_rng_below(&m.rng, 50) == 0) {
            disturb(&m);
        }
    }
    aisim_gaps_finish(&m.gaps);
    aisim_stats got, want;
    aisim_digest_stats(&m.gaps.pooled, &got);
    aisim_digest_stats(&m.want, &want);
    CHECK(want.n > steps);
    CHECK_EQ(got.n, want.n);
    CHECK(got.mean == want.mean && got.std == want.std);
    CHECK(got.min == want.min && got.max == want.max);
    CHECK(got.median == want.median && got.p90 == want.p90 && got.p99 == want.p99);
    aisim_gaps_free(&m.gaps);
    aisim_digest_clear(&m.want);
}

/* Steady decode of one request: one entry per pass, one addition per distinct gap. */
static void a_live_request_keeps_its_passes(void)
{
    aisim_gaps gaps;
    aisim_gaps_init(&gaps, AISIM_PERCENTILE_LINEAR, 0);
    aisim_gaps_first(&gaps, 1, 0, 100);
    for (int64_t i = 1; i <= 20000; i++) {
        aisim_gaps_pass(&gaps, 0, 100 + i * 10, 10);
    }
    CHECK_EQ(gaps.ranks.data[0].passes.len, 20000);
    CHECK_EQ(gaps.pooled.n, 0);
    aisim_gaps_over(&gaps, 1, 100 + 200000, 20001, true);
    for (int64_t i = 20001; i <= 60000; i++) { /* nobody counts in these */
        aisim_gaps_pass(&gaps, 0, 100 + i * 10, 10);
    }
    CHECK(gaps.ranks.data[0].passes.len <= 8192);
    aisim_gaps_finish(&gaps);
    CHECK_EQ(gaps.pooled.n, 20000);
    CHECK_NEAR(aisim_digest_mean(&gaps.pooled), 1e-5, 1e-18);
    aisim_gaps_over(&gaps, 1, 0, 1, true); /* unknown by now */
    aisim_gaps_free(&gaps);
}

int main(void)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        random_machine(seed, 3000);
    }
    random_machine(99, 60000);
    a_live_request_keeps_its_passes();
    return check_done();
}
