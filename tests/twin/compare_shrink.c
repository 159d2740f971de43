/* compare_shrink.c - makes a failing case smaller by trying simpler ones and keeping what fails.
 *
 * Each attempt runs in a process of its own, so a broken invariant or an endless loop counts as a
 * failure like any difference. Greedy, until a whole round changes nothing. */
#include "compare.h"

#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_S = 10, ATTEMPTS = 20000 };

bool compare_run_apart(const compare_case *c, char *difference)
{
    int ends[2];
    fflush(NULL);
    if (pipe(ends) != 0) {
        return true;
    }
    pid_t child = fork();
    if (child == 0) {
        compare_result result;
        alarm(PATIENCE_S);
        if (difference == NULL) {
            (void)!freopen("/dev/null", "w", stderr);
        }
        compare_run(c, &result);
        (void)!write(ends[1], result.difference, sizeof result.difference);
        exit(result.same ? 0 : 1);
    }
    close(ends[1]);
    char text[512] = "";
    (void)!read(ends[0], text, sizeof text);
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    bool same = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (difference != NULL) {
        memcpy(difference, text, sizeof text);
        if (!same && text[0] == '\0') {
            snprintf(difference, sizeof text, "%s",
                     WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM
                         ? "no end within 10 s"
                         : "the process ended: a broken invariant or a sanitizer, see above");
        }
    }
    return same;
}

typedef struct shrinker {
    compare_case *best;
    uint32_t attempts;
    bool progress;
} shrinker;

static bool same_tokens(const compare_tokens *a, const compare_tokens *b)
{
    return a->len == b->len &&
           (a->len == 0 || memcmp(a->data, b->data, a->len * sizeof *a->data) == 0);
}

/* Blocks are named by the id of their publisher, so equal ids must mean equal content. */
static bool names_unique(const compare_case *c)
{
    for (uint32_t i = 0; i < c->requests.len; i++) {
        for (uint32_t j = 0; j < i; j++) {
            const compare_request *a = &c->requests.data[i], *b = &c->requests.data[j];
            bool same = a->salt == b->salt && a->output == b->output &&
                        a->planned.len >= a->output && same_tokens(&a->prompt, &b->prompt) &&
                        same_tokens(&a->planned, &b->planned);
            if (a->id == b->id && !same) {
                return false;
            }
        }
    }
    return true;
}

/* Takes ownership of the candidate. @return whether it became the best one. */
static bool offer(shrinker *s, compare_case *candidate)
{
    aisim_error err = {0};
    bool valid =
        aisim_rank_config_check(&candidate->config, &err) == AISIM_OK && names_unique(candidate);
    if (!valid || s->attempts >= ATTEMPTS) {
        compare_free(candidate);
        return false;
    }
    s->attempts++;
    if (compare_run_apart(candidate, NULL)) {
        compare_free(candidate);
        return false;
    }
    compare_free(s->best);
    s->best = candidate;
    s->progress = true;
    return true;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void drop_request(compare_case *c, uint32_t index)
{
    aisim_array_free(&c->requests.data[index].prompt);
    aisim_array_free(&c->requests.data[index].planned);
    aisim_array_remove(&c->requests, index);
    for (uint32_t i = c->peers.len; i-- > 0;) {
        uint32_t *request = &c->peers.data[i].request;
        if (*request == index) {
            aisim_array_remove(&c->peers, i);
        } else if (*request > index) {
            (*request)--;
        }
    }
    for (uint32_t i = 0; i < c->requests.len; i++) {
        uint32_t *after = &c->requests.data[i].after;
        if (*after == index) {
            *after = COMPARE_NONE;
        } else if (*after != COMPARE_NONE && *after > index) {
            (*after)--;
        }
    }
}

static void drop_requests(shrinker *s)
{
    for (uint32_t n = 8; n >= 1; n /= 2) {
        for (uint32_t i = s->best->requests.len; i-- > 0;) {
            if (i + n > s->best->requests.len) {
                continue;
            }
            compare_case *c = compare_copy(s->best);
            for (uint32_t k = 0; k < n; k++) {
                drop_request(c, i);
            }
            offer(s, c);
        }
    }
}

/* Everything happens earlier by the same number of passes. */
static bool shift(shrinker *s, uint32_t by)
{
    compare_case *c = compare_copy(s->best);
    for (uint32_t i = 0; i < c->requests.len; i++) {
        uint32_t *arrive = &c->requests.data[i].arrive;
        *arrive -= *arrive < by ? *arrive : by;
    }
    for (uint32_t i = 0; i < c->defer.len; i++) {
        c->defer.data[i] -= c->defer.data[i] < by ? c->defer.data[i] : by;
    }
    for (uint32_t i = 0; i < c->reset.len; i++) {
        c->reset.data[i] -= c->reset.data[i] < by ? c->reset.data[i] : by;
    }
    for (uint32_t i = 0; i < c->flush.len; i++) {
        c->flush.data[i] -= c->flush.data[i] < by ? c->flush.data[i] : by;
    }
    for (uint32_t i = 0; i < c->budgets.len; i++) {
        uint32_t *pass = &c->budgets.data[i].pass;
        *pass -= *pass < by ? *pass : by;
    }
    for (uint32_t i = 0; i < c->peers.len; i++) {
        uint32_t *pass = &c->peers.data[i].pass;
        *pass -= *pass < by ? *pass : by;
    }
    return offer(s, c);
}

static void sooner(shrinker *s)
{
    uint32_t first = COMPARE_NONE;
    for (uint32_t i = 0; i < s->best->requests.len; i++) {
        uint32_t arrive = s->best->requests.data[i].arrive;
        first = arrive < first ? arrive : first;
    }
    if (first == 0 || first == COMPARE_NONE) {
        return;
    }
    for (uint32_t by = first; by > 0 && !shift(s, by); by /= 2) {
    }
}

static void drop_passes(shrinker *s, size_t offset)
{
    compare_case *c = compare_copy(s->best);
    compare_passes *list = (compare_passes *)(void *)((char *)c + offset);
    uint32_t len = list->len;
    list->len = 0;
    if (len == 0 || offer(s, c)) {
        if (len == 0) {
            compare_free(c);
        }
        return;
    }
    for (uint32_t i = len; i-- > 0;) {
        c = compare_copy(s->best);
        list = (compare_passes *)(void *)((char *)c + offset);
        aisim_array_remove(list, i);
        offer(s, c);
    }
}

static void drop_peers(shrinker *s)
{
    for (uint32_t i = s->best->peers.len; i-- > 0;) {
        compare_case *c = compare_copy(s->best);
        aisim_array_remove(&c->peers, i);
        offer(s, c);
    }
}

static void drop_budgets(shrinker *s)
{
    for (uint32_t i = s->best->budgets.len; i-- > 0;) {
        compare_case *c = compare_copy(s->best);
        aisim_array_remove(&c->budgets, i);
        offer(s, c);
    }
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Sets bytes of a copy of the best case. @param owner 0 = the case, else 1 + a request index. */
static bool set(shrinker *s, uint32_t owner, size_t offset, const void *value, size_t size)
{
    compare_case *c = compare_copy(s->best);
    char *base = owner == 0 ? (char *)c : (char *)&c->requests.data[owner - 1];
    if (memcmp(base + offset, value, size) == 0) {
        compare_free(c);
        return false;
    }
    memcpy(base + offset, value, size);
    return offer(s, c);
}

/* Tries 0, halves and one less. */
static void lower(shrinker *s, uint32_t owner, size_t offset, uint32_t least)
{
    for (bool again = true; again;) {
        const char *base =
            owner == 0 ? (const char *)s->best : (const char *)&s->best->requests.data[owner - 1];
        uint32_t now;
        memcpy(&now, base + offset, sizeof now);
        if (now <= least || now == COMPARE_NONE) {
            return;
        }
        uint32_t half = least + (now - least) / 2, less = now - 1;
        again = set(s, owner, offset, &least, sizeof least) ||
                set(s, owner, offset, &half, sizeof half) ||
                set(s, owner, offset, &less, sizeof less);
    }
}

#define OF_CASE(member) offsetof(compare_case, member)
#define OF_REQUEST(member) offsetof(compare_request, member)

/* Each option back to its default. */
static void plain_config(shrinker *s)
{
    compare_case *defaults = aisim_alloc_zero(1, sizeof *defaults);
    aisim_rank_config_default(&defaults->config);
    static const struct {
        size_t offset, size;
    } options[] = {
#define OPTION(member) {OF_CASE(member), sizeof(((compare_case *)0)->member)}
        OPTION(config.scheduler.context_length),
        OPTION(config.scheduler.chunked_prefill),
        OPTION(config.scheduler.policy),
        OPTION(config.scheduler.preemption),
        OPTION(config.scheduler.long_prefill_token_threshold),
        OPTION(config.scheduler.watermark),
        OPTION(config.scheduler.never_fits),
        OPTION(config.scheduler.reserve_full_prompt),
        OPTION(config.scheduler.admit_at_zero_budget),
        OPTION(config.scheduler.self_preemption),
        OPTION(config.scheduler.overlap),
        OPTION(config.scheduler.preempting_pass_limit),
        OPTION(config.kv.prefix_caching),
        OPTION(config.kv.prefix_match_unit),
        OPTION(config.kv.align_split),
        OPTION(config.kv.checkpoints),
        OPTION(config.kv.same_pass_hit),
        OPTION(config.kv.state_mode),
        OPTION(config.speculation),
        OPTION(config.speculation.acceptance_rates),
        OPTION(config.speculation.stream),
        OPTION(config.speculation.first_chunk_lookahead),
        OPTION(config.speculation.pad_first_decode),
        OPTION(config.group_ranks),
        OPTION(config.host),
        OPTION(config.host.touch_prompt_on_lookup),
        OPTION(config.host.touch_prompt_on_store),
        OPTION(config.host.drop_applies_to_loads),
        OPTION(config.host.tie_break),
        OPTION(config.host.refresh_on_load),
        OPTION(config.host.latency_ms),
        OPTION(gap_ns),
        OPTION(waves),
        OPTION(listen),
    };
    for (uint32_t i = 0; i < sizeof options / sizeof *options; i++) {
        set(s, 0, options[i].offset, (const char *)defaults + options[i].offset, options[i].size);
    }
    aisim_free(defaults);
    static const uint32_t plenty[] = {1000, 100, 32, 16, 8};
    for (uint32_t i = 0; i < 5 && s->best->config.scheduler.max_batched_tokens < plenty[i]; i++) {
        set(s, 0, OF_CASE(config.scheduler.max_batched_tokens), &plenty[i], sizeof plenty[i]);
    }
    lower(s, 0, OF_CASE(config.scheduler.max_sequences), 1);
    lower(s, 0, OF_CASE(connector), 0);
    lower(s, 0, OF_CASE(look_every), 0);
    lower(s, 0, OF_CASE(config.kv.block_size), 2);
    lower(s, 0, OF_CASE(pass_ns), 1);
    lower(s, 0, OF_CASE(config.kv.state_blocks), 0);
    for (uint64_t n = s->best->config.kv.blocks; n > 1; n--) {
        uint64_t less = n - 1;
        if (!set(s, 0, OF_CASE(config.kv.blocks), &less, sizeof less)) {
            break;
        }
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

static compare_tokens *tokens_of(compare_case *c, uint32_t index, bool planned)
{
    compare_request *r = &c->requests.data[index];
    return planned ? &r->planned : &r->prompt;
}

static void shorter(shrinker *s, uint32_t index, bool planned)
{
    for (uint32_t cut = 32; cut >= 1;) {
        compare_case *c = compare_copy(s->best);
        compare_tokens *list = tokens_of(c, index, planned);
        if (list->len < cut) {
            compare_free(c);
            cut /= 2;
            continue;
        }
        list->len -= cut;
        if (!offer(s, c)) {
            cut /= 2;
        }
    }
}

static void plain_tokens(shrinker *s, uint32_t index, bool planned)
{
    for (uint32_t i = 0; i < tokens_of(s->best, index, planned)->len; i++) {
        uint64_t now = tokens_of(s->best, index, planned)->data[i];
        for (uint64_t token = 1; token <= 2 && token < now; token++) {
            compare_case *c = compare_copy(s->best);
            tokens_of(c, index, planned)->data[i] = token;
            if (offer(s, c)) {
                break;
            }
        }
    }
}

static void plain_request(shrinker *s, uint32_t index)
{
    uint32_t none = COMPARE_NONE, zero = 0;
    uint64_t no_salt = 0;
    bool no = false;
    compare_role plain = COMPARE_PLAIN;
    uint32_t owner = index + 1;
    set(s, owner, OF_REQUEST(cancel), &none, sizeof none);
    set(s, owner, OF_REQUEST(after), &none, sizeof none);
    set(s, owner, OF_REQUEST(role), &plain, sizeof plain);
    set(s, owner, OF_REQUEST(salt), &no_salt, sizeof no_salt);
    set(s, owner, OF_REQUEST(priority), &zero, sizeof zero);
    set(s, owner, OF_REQUEST(no_read), &no, sizeof no);
    set(s, owner, OF_REQUEST(arrive_in_flight), &no, sizeof no);
    set(s, owner, OF_REQUEST(cancel_in_flight), &no, sizeof no);
    shorter(s, index, false);
    shorter(s, index, true);
    lower(s, owner, OF_REQUEST(output), 0);
    lower(s, owner, OF_REQUEST(arrive), 0);
    lower(s, owner, OF_REQUEST(cancel), 0);
    lower(s, owner, OF_REQUEST(hand), 0);
}

uint32_t compare_shrink(compare_case *c)
{
    shrinker s = {.best = compare_copy(c), .progress = true};
    while (s.progress && s.attempts < ATTEMPTS) {
        s.progress = false;
        drop_requests(&s);
        sooner(&s);
        drop_passes(&s, OF_CASE(defer));
        drop_passes(&s, OF_CASE(reset));
        drop_passes(&s, OF_CASE(flush));
        drop_budgets(&s);
        drop_peers(&s);
        for (uint32_t i = 0; i < s.best->requests.len; i++) {
            plain_request(&s, i);
        }
        plain_config(&s);
        for (uint32_t i = 0; i < s.best->requests.len; i++) {
            plain_tokens(&s, i, false);
            plain_tokens(&s, i, true);
        }
    }
    compare_case old = *c; /* the caller keeps its pointer */
    *c = *s.best;
    *s.best = old;
    compare_free(s.best);
    return s.attempts;
}
