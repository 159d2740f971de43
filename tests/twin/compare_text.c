/* compare_text.c - a case as text, so that a failure can be sent around and replayed.
 *
 *     config block_size=4 num_blocks=6 … (only what differs from the default)
 *     request 1 prompt=1x8,5,100..103 output=4 planned=2x3 arrive=0 …
 *     defer 3 4 9
 *     reset 12
 *     flush 20
 *     budget 7=16
 *     peer pass=3 load request=0 first=0 end=2 in_flight
 *
 * Token lists: `5` one id, `1x8` eight times the same, `100..103` ascending, both ends included. */
#include "compare.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef enum { U32, U64, FLAG, REAL, CHOICE, RATES } field_kind;

typedef struct field {
    const char *key;
    field_kind kind;
    size_t offset;
    const char *const *names; /* CHOICE */
} field;

static const char *const policies[] = {"fcfs", "priority", NULL};
static const char *const preemptions[] = {"lifo", "fifo", NULL};
static const char *const never_fits[] = {"reject", "wait", NULL};
static const char *const self_preemptions[] = {"continue", "end_pass", NULL};
static const char *const state_modes[] = {"none", "aligned", "latest", NULL};
static const char *const splits[] = {"fixed", "legacy", "upstream", NULL};
static const char *const checkpoints[] = {"prompt_boundary", "chunk_end", NULL};
static const char *const same_pass[] = {"ignore", "wait", NULL};
static const char *const speculations[] = {"none", "native", "burst", NULL};
static const char *const overlaps[] = {"none", "pipelined", "async", NULL};
static const char *const scopes[] = {"none", "rank_local", "shared", NULL};
static const char *const ties[] = {"deepest_first", "key_asc", "listed", NULL};
static const char *const streams[] = {"per_request", "worker", NULL};

#define AT(member) offsetof(aisim_rank_config, member)

static const field fields[] = {
    {"block_size", U32, AT(kv.block_size), NULL},
    {"num_blocks", U64, AT(kv.blocks), NULL},
    {"prefix_caching", FLAG, AT(kv.prefix_caching), NULL},
    {"max_batched_tokens", U32, AT(scheduler.max_batched_tokens), NULL},
    {"max_sequences", U32, AT(scheduler.max_sequences), NULL},
    {"context_length", U64, AT(scheduler.context_length), NULL},
    {"chunked_prefill", FLAG, AT(scheduler.chunked_prefill), NULL},
    {"policy", CHOICE, AT(scheduler.policy), policies},
    {"preemption", CHOICE, AT(scheduler.preemption), preemptions},
    {"watermark", REAL, AT(scheduler.watermark), NULL},
    {"never_fits", CHOICE, AT(scheduler.never_fits), never_fits},
    {"reserve_full_prompt", FLAG, AT(scheduler.reserve_full_prompt), NULL},
    {"long_prefill_token_threshold", U32, AT(scheduler.long_prefill_token_threshold), NULL},
    {"admit_at_zero_budget", FLAG, AT(scheduler.admit_at_zero_budget), NULL},
    {"self_preemption", CHOICE, AT(scheduler.self_preemption), self_preemptions},
    {"overlap", CHOICE, AT(scheduler.overlap), overlaps},
    {"preempting_pass_limit", U32, AT(scheduler.preempting_pass_limit), NULL},
    {"prefill_schedule_interval", U32, AT(scheduler.prefill_schedule_interval), NULL},
    {"group_ranks", U32, AT(group_ranks), NULL},
    {"prefix_match_unit", U32, AT(kv.prefix_match_unit), NULL},
    {"state_mode", CHOICE, AT(kv.state_mode), state_modes},
    {"state_blocks", U32, AT(kv.state_blocks), NULL},
    {"align_split", CHOICE, AT(kv.align_split), splits},
    {"checkpoints", CHOICE, AT(kv.checkpoints), checkpoints},
    {"same_pass_hit", CHOICE, AT(kv.same_pass_hit), same_pass},
    {"speculation", CHOICE, AT(speculation.mode), speculations},
    {"depth", U32, AT(speculation.depth), NULL},
    {"rates", RATES, AT(speculation.acceptance_rates), NULL},
    {"draw_seed", U64, AT(speculation.seed), NULL},
    {"stream", CHOICE, AT(speculation.stream), streams},
    {"drop_matched_block", FLAG, AT(speculation.drop_matched_block), NULL},
    {"lookahead_slots", U32, AT(speculation.lookahead_slots), NULL},
    {"first_chunk_lookahead", FLAG, AT(speculation.first_chunk_lookahead), NULL},
    {"pad_first_decode", FLAG, AT(speculation.pad_first_decode), NULL},
    {"bytes_per_token", REAL, AT(kv.bytes_per_token), NULL},
    {"host", CHOICE, AT(host.scope), scopes},
    {"host_blocks", U64, AT(host.blocks), NULL},
    {"d2h", REAL, AT(host.d2h_gbps), NULL},
    {"h2d", REAL, AT(host.h2d_gbps), NULL},
    {"shared_d2h", REAL, AT(host.shared_d2h_gbps), NULL},
    {"shared_h2d", REAL, AT(host.shared_h2d_gbps), NULL},
    {"latency_ms", REAL, AT(host.latency_ms), NULL},
    {"touch_on_lookup", FLAG, AT(host.touch_prompt_on_lookup), NULL},
    {"touch_on_store", FLAG, AT(host.touch_prompt_on_store), NULL},
    {"drop_on_load", FLAG, AT(host.drop_applies_to_loads), NULL},
    {"tie_break", CHOICE, AT(host.tie_break), ties},
    {"refresh_on_load", FLAG, AT(host.refresh_on_load), NULL},
};

enum { N_FIELDS = sizeof fields / sizeof *fields };

static const void *member(const aisim_rank_config *config, const field *f)
{
    return (const char *)config + f->offset;
}

/* An enumeration as a number; every one of config.h is an int. */
static size_t size_of(field_kind kind)
{
    switch (kind) {
    case U32:
    case CHOICE:
        return sizeof(uint32_t);
    case U64:
        return sizeof(uint64_t);
    case FLAG:
        return sizeof(bool);
    case REAL:
        return sizeof(double);
    case RATES:
        return AISIM_MAX_DRAFTS * sizeof(double);
    }
    return 0;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_field(const field *f, const void *value, FILE *out)
{
    fprintf(out, " %s=", f->key);
    switch (f->kind) {
    case U32:
        fprintf(out, "%" PRIu32, *(const uint32_t *)value);
        break;
    case U64:
        fprintf(out, "%" PRIu64, *(const uint64_t *)value);
        break;
    case FLAG:
        fputs(*(const bool *)value ? "yes" : "no", out);
        break;
    case REAL:
        fprintf(out, "%.17g", *(const double *)value);
        break;
    case CHOICE:
        fputs(f->names[*(const uint32_t *)value], out);
        break;
    case RATES:
        for (uint32_t i = 0; i < AISIM_MAX_DRAFTS; i++) {
            fprintf(out, "%s%.17g", i == 0 ? "" : ",", ((const double *)value)[i]);
        }
        break;
    }
}

static void print_tokens(const char *key, const compare_tokens *list, FILE *out)
{
    fprintf(out, " %s=", key);
    for (uint32_t i = 0; i < list->len;) {
        uint64_t first = list->data[i];
        uint32_t same = 1, up = 1;
        while (i + same < list->len && list->data[i + same] == first) {
            same++;
        }
        while (i + up < list->len && list->data[i + up] == first + up) {
            up++;
        }
        fprintf(out, "%s%" PRIu64, i == 0 ? "" : ",", first);
        if (same > 1) {
            fprintf(out, "x%" PRIu32, same);
        } else if (up > 1) {
            fprintf(out, "..%" PRIu64, first + up - 1);
        }
        i += same > 1 ? same : up;
    }
}

static void print_request(const compare_request *r, FILE *out)
{
    static const char *const roles[] = {"", " role=source", " role=destination", " role=blocked"};
    fprintf(out, "request %" PRIu32, r->id);
    print_tokens("prompt", &r->prompt, out);
    fprintf(out, " output=%" PRIu32, r->output);
    if (r->planned.len > 0) {
        print_tokens("planned", &r->planned, out);
    }
    if (r->after != COMPARE_NONE) {
        fprintf(out, " after=%" PRIu32, r->after);
    }
    fprintf(out, " arrive=%" PRIu32 "%s", r->arrive,
            r->arrive_in_flight ? " arrive_in_flight" : "");
    if (r->cancel != COMPARE_NONE) {
        fprintf(out, " cancel=%" PRIu32 "%s", r->cancel,
                r->cancel_in_flight ? " cancel_in_flight" : "");
    }
    if (r->priority != 0) {
        fprintf(out, " priority=%" PRId32, r->priority);
    }
    if (r->salt != 0) {
        fprintf(out, " salt=%" PRIu64, r->salt);
    }
    fputs(r->no_read ? " no_read" : "", out);
    if (r->role != COMPARE_PLAIN) {
        fprintf(out, "%s hand=%" PRIu32, roles[r->role], r->hand);
    }
    fputc('\n', out);
}

void compare_print(const compare_case *c, FILE *out)
{
    aisim_rank_config defaults;
    aisim_rank_config_default(&defaults);
    fputs("config", out);
    for (uint32_t i = 0; i < N_FIELDS; i++) {
        const field *f = &fields[i];
        if (i < 2 || memcmp(member(&c->config, f), member(&defaults, f), size_of(f->kind)) != 0) {
            print_field(f, member(&c->config, f), out);
        }
    }
    if (c->connector > 0) {
        fprintf(out, " connector=%" PRIu32, c->connector);
    }
    if (c->look_every > 0) {
        fprintf(out, " look_every=%" PRIu32, c->look_every);
    }
    if (c->pass_ns > 0) {
        fprintf(out, " pass_ns=%" PRIu32 " gap_ns=%" PRIu32, c->pass_ns, c->gap_ns);
    }
    fputs(c->listen ? " listen" : "", out);
    fputs(c->waves ? " waves\n" : "\n", out);
    for (uint32_t i = 0; i < c->requests.len; i++) {
        print_request(&c->requests.data[i], out);
    }
    static const char *const names[] = {"defer", "reset", "flush"};
    const compare_passes *lists[] = {&c->defer, &c->reset, &c->flush};
    for (uint32_t k = 0; k < 3; k++) {
        if (lists[k]->len > 0) {
            fputs(names[k], out);
            for (uint32_t i = 0; i < lists[k]->len; i++) {
                fprintf(out, " %" PRIu32, lists[k]->data[i]);
            }
            fputc('\n', out);
        }
    }
    for (uint32_t i = 0; i < c->peers.len; i++) {
        const compare_peer *p = &c->peers.data[i];
        fprintf(out, "peer pass=%" PRIu32 "%s request=%" PRIu32 " first=%" PRIu32 " end=%" PRIu32,
                p->pass, p->load ? " load" : "", p->request, p->first, p->end);
        fputs(p->in_flight ? " in_flight\n" : "\n", out);
    }
    if (c->budgets.len > 0) {
        fputs("budget", out);
        for (uint32_t i = 0; i < c->budgets.len; i++) {
            fprintf(out, " %" PRIu32 "=%" PRIu32, c->budgets.data[i].pass,
                    c->budgets.data[i].tokens);
        }
        fputc('\n', out);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool parse_number(const char *text, uint64_t *out)
{
    char *end;
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0';
}

static bool parse_u32(const char *text, uint32_t *out)
{
    uint64_t n;
    if (!parse_number(text, &n) || n > UINT32_MAX) {
        return false;
    }
    *out = (uint32_t)n;
    return true;
}

static bool parse_tokens(const char *text, compare_tokens *list)
{
    while (*text != '\0') {
        char *end;
        uint64_t first = strtoull(text, &end, 10);
        uint64_t count = 1, step = 0;
        if (end == text) {
            return false;
        }
        if (*end == 'x') {
            count = strtoull(end + 1, &end, 10);
        } else if (strncmp(end, "..", 2) == 0) {
            count = strtoull(end + 2, &end, 10) - first + 1;
            step = 1;
        }
        if (count > 1000000 || (*end != ',' && *end != '\0')) {
            return false;
        }
        for (uint64_t i = 0; i < count; i++) {
            aisim_array_push(list, first + i * step);
        }
        text = *end == ',' ? end + 1 : end;
    }
    return true;
}

static bool parse_value(const field *f, const char *text, aisim_rank_config *config)
{
    void *at = (char *)config + f->offset;
    switch (f->kind) {
    case U32:
        return parse_u32(text, at);
    case U64:
        return parse_number(text, at);
    case FLAG:
        *(bool *)at = strcmp(text, "yes") == 0;
        return true;
    case REAL:
        *(double *)at = strtod(text, NULL);
        return true;
    case CHOICE:
        for (uint32_t i = 0; f->names[i] != NULL; i++) {
            if (strcmp(f->names[i], text) == 0) {
                *(uint32_t *)at = i;
                return true;
            }
        }
        return false;
    case RATES:
        for (uint32_t i = 0; i < AISIM_MAX_DRAFTS && *text != '\0'; i++) {
            char *end;
            ((double *)at)[i] = strtod(text, &end);
            text = *end == ',' ? end + 1 : end;
        }
        return true;
    }
    return false;
}

static bool parse_config(compare_case *c, const char *key, const char *value)
{
    if (strcmp(key, "waves") == 0) {
        return c->waves = true;
    } else if (strcmp(key, "listen") == 0) {
        return c->listen = true;
    } else if (strcmp(key, "look_every") == 0) {
        return parse_u32(value, &c->look_every);
    } else if (strcmp(key, "connector") == 0) {
        return parse_u32(value, &c->connector);
    } else if (strcmp(key, "pass_ns") == 0) {
        return parse_u32(value, &c->pass_ns);
    } else if (strcmp(key, "gap_ns") == 0) {
        return parse_u32(value, &c->gap_ns);
    }
    for (uint32_t i = 0; i < N_FIELDS; i++) {
        if (strcmp(fields[i].key, key) == 0) {
            return parse_value(&fields[i], value, &c->config);
        }
    }
    return false;
}

static bool parse_request(compare_request *r, const char *key, const char *value)
{
#define IS(name) (strcmp(key, name) == 0)
    if (IS("prompt")) {
        return parse_tokens(value, &r->prompt);
    } else if (IS("planned")) {
        return parse_tokens(value, &r->planned);
    } else if (IS("output")) {
        return parse_u32(value, &r->output);
    } else if (IS("after")) {
        return parse_u32(value, &r->after);
    } else if (IS("arrive")) {
        return parse_u32(value, &r->arrive);
    } else if (IS("arrive_in_flight")) {
        return r->arrive_in_flight = true;
    } else if (IS("cancel")) {
        return parse_u32(value, &r->cancel);
    } else if (IS("cancel_in_flight")) {
        return r->cancel_in_flight = true;
    } else if (IS("priority")) {
        r->priority = (int32_t)strtol(value, NULL, 10);
        return true;
    } else if (IS("salt")) {
        return parse_number(value, &r->salt);
    } else if (IS("no_read")) {
        return r->no_read = true;
    } else if (IS("role")) {
        r->role = *value == 's'   ? COMPARE_SOURCE
                  : *value == 'd' ? COMPARE_DESTINATION
                                  : COMPARE_BLOCKED;
        return true;
    } else if (IS("hand")) {
        return parse_u32(value, &r->hand);
    }
#undef IS
    return false;
}

static bool parse_peer(compare_peer *p, const char *key, const char *value)
{
    if (strcmp(key, "load") == 0) {
        return p->load = true;
    } else if (strcmp(key, "in_flight") == 0) {
        return p->in_flight = true;
    }
    uint32_t *number = strcmp(key, "pass") == 0      ? &p->pass
                       : strcmp(key, "request") == 0 ? &p->request
                       : strcmp(key, "first") == 0   ? &p->first
                       : strcmp(key, "end") == 0     ? &p->end
                                                     : NULL;
    return number != NULL && parse_u32(value, number);
}

/* One word of a line. @return false when it is not understood. */
static bool parse_word(compare_case *c, const char *line, char *word)
{
    char *value = strchr(word, '=');
    const char *text = "";
    if (value != NULL) {
        *value = '\0';
        text = value + 1;
    }
    uint32_t n;
    if (strcmp(line, "config") == 0) {
        return parse_config(c, word, text);
    } else if (strcmp(line, "request") == 0) {
        compare_request *r = &c->requests.data[c->requests.len - 1];
        return r->id == COMPARE_NONE ? parse_u32(word, &r->id) : parse_request(r, word, text);
    } else if (strcmp(line, "peer") == 0) {
        return parse_peer(&c->peers.data[c->peers.len - 1], word, text);
    } else if (!parse_u32(word, &n)) {
        return false;
    } else if (strcmp(line, "defer") == 0) {
        aisim_array_push(&c->defer, n);
    } else if (strcmp(line, "reset") == 0) {
        aisim_array_push(&c->reset, n);
    } else if (strcmp(line, "flush") == 0) {
        aisim_array_push(&c->flush, n);
    } else if (strcmp(line, "budget") == 0) {
        compare_budget change = {.pass = n};
        if (!parse_u32(text, &change.tokens)) {
            return false;
        }
        aisim_array_push(&c->budgets, change);
    } else {
        return false;
    }
    return true;
}

compare_case *compare_parse(FILE *in, const char *name)
{
    enum { LONGEST_LINE = 1 << 16 };
    compare_case *c = aisim_alloc_zero(1, sizeof *c);
    char *line = aisim_alloc(LONGEST_LINE, 1);
    bool ok = true;
    aisim_rank_config_default(&c->config);
    for (uint32_t number = 1; ok && fgets(line, LONGEST_LINE, in) != NULL; number++) {
        char *rest;
        char *what = strtok_r(line, " \n", &rest);
        if (what == NULL || *what == '#') {
            continue;
        }
        if (strcmp(what, "request") == 0) {
            compare_request r = {.id = COMPARE_NONE, .after = COMPARE_NONE, .cancel = COMPARE_NONE};
            aisim_array_push(&c->requests, r);
        }
        if (strcmp(what, "peer") == 0) {
            aisim_array_push(&c->peers, (compare_peer){0});
        }
        char *word;
        while (ok && (word = strtok_r(NULL, " \n", &rest)) != NULL) {
            ok = parse_word(c, what, word);
            if (!ok) {
                fprintf(stderr, "%s:%" PRIu32 ": '%s' is not understood\n", name, number, word);
            }
        }
    }
    for (uint32_t i = 0; ok && i < c->requests.len; i++) {
        const compare_request *r = &c->requests.data[i];
        ok = r->id != COMPARE_NONE && (r->after == COMPARE_NONE || r->after < i);
        if (!ok) {
            fprintf(stderr, "%s: request %" PRIu32 " of the list: id or 'after' is wrong\n", name,
                    i);
        }
    }
    aisim_free(line);
    if (!ok) {
        compare_free(c);
        return NULL;
    }
    return c;
}
