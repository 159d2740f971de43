/* trace_traffic_rows.c - rows that wait for their turn, their sessions, the content of prompts. */
#include "base/rng.h"
#include "sim/trace_traffic_parts.h"

void aisim_trace_give_up(aisim_trace_client *t, const aisim_error *err)
{
    t->ended = true;
    aisim_pace_give_up(&t->pace, err);
}

/* ---- rows ---- */

void aisim_trace_drop_row(aisim_trace_client *t, uint32_t index)
{
    aisim_trace_pending *row = &t->rows.data[index];
    aisim_free(row->ids);
    aisim_free(row->name);
    row->ids = NULL;
    row->name = NULL;
    row->next = t->free_row;
    t->free_row = index;
}

static uint32_t keep_row(aisim_trace_client *t, const aisim_trace_row *row)
{
    uint32_t index = t->free_row;
    if (index != AISIM_NONE) {
        t->free_row = t->rows.data[index].next;
    } else {
        index = t->rows.len;
        aisim_array_push(&t->rows, (aisim_trace_pending){0});
    }
    aisim_trace_pending *p = &t->rows.data[index];
    *p = (aisim_trace_pending){.arrival_ns = row->arrival_ns,
                               .delay_ns = row->delay_ns,
                               .input_tokens = row->input_tokens,
                               .output_tokens = row->output_tokens,
                               .kept_tokens = row->kept_tokens,
                               .has_kept = row->has_kept,
                               .delta = row->delta,
                               .priority = row->priority,
                               .block_size = row->block_size,
                               .n_ids = row->n_ids,
                               .n_output_ids = row->n_output_ids,
                               .session = AISIM_NONE,
                               .next = AISIM_NONE};
    p->name = row->id == NULL ? NULL : aisim_strdup(row->id);
    if (row->n_ids + row->n_output_ids > 0) {
        p->ids = aisim_alloc((size_t)row->n_ids + row->n_output_ids, sizeof *p->ids);
    }
    if (row->n_ids > 0) {
        memcpy(p->ids, row->ids, row->n_ids * sizeof *p->ids);
    }
    if (row->n_output_ids > 0) {
        memcpy(p->ids + row->n_ids, row->output_ids, row->n_output_ids * sizeof *p->ids);
    }
    return index;
}

static uint32_t session_of(aisim_trace_client *t, const char *name)
{
    uint64_t hash = aisim_hash_text(name);
    uint32_t index = aisim_map_get(&t->by_name, hash, 0);
    if (index != AISIM_NONE) {
        return index;
    }
    index = t->free_session;
    if (index != AISIM_NONE) {
        t->free_session = t->sessions.data[index].next;
    } else {
        index = t->sessions.len;
        aisim_array_push(&t->sessions, (aisim_trace_session){0});
    }
    t->sessions.data[index] = (aisim_trace_session){.hash = hash,
                                                    .name = aisim_strdup(name),
                                                    .first = AISIM_NONE,
                                                    .last = AISIM_NONE,
                                                    .number = aisim_sim_next_session(t->sim),
                                                    .end_ns = 0,
                                                    .next = AISIM_NONE};
    aisim_map_set(&t->by_name, hash, 0, index);
    return index;
}

/* Reads one row and puts it where it waits. @return the row, AISIM_NONE at the end */
uint32_t aisim_trace_read_row(aisim_trace_client *t, bool *begins_unit)
{
    aisim_trace_row row;
    bool found = false;
    aisim_error err = {0};
    *begins_unit = false;
    if (t->ended) {
        return AISIM_NONE;
    }
    if (aisim_trace_next(t->trace, &row, &found, &err) != AISIM_OK) {
        aisim_trace_give_up(t, &err);
        return AISIM_NONE;
    }
    if (!found) {
        t->ended = true;
        return AISIM_NONE;
    }
    uint32_t index = keep_row(t, &row);
    *begins_unit = true;
    if (row.session != NULL) {
        uint32_t s = session_of(t, row.session);
        aisim_trace_session *of = &t->sessions.data[s];
        *begins_unit = !of->started && !of->refused && of->first == AISIM_NONE;
        if (*begins_unit && row.delay_ns > 0) {
            aisim_fail_at(&err, AISIM_EINVAL, row.file, row.line, 0,
                          "session '%s': its first row has a delay, which waits for a turn before "
                          "it",
                          row.session);
            aisim_trace_give_up(t, &err);
            return AISIM_NONE;
        }
        if (*begins_unit && row.arrival_ns < 0 && t->config.timestamps) {
            aisim_fail_at(&err, AISIM_EINVAL, row.file, row.line, 0,
                          "session '%s': field 'timestamp' missing in its first row (or give a "
                          "load: concurrency, arrivals)",
                          row.session);
            aisim_trace_give_up(t, &err);
            return AISIM_NONE;
        }
        t->rows.data[index].session = s;
        if (of->first == AISIM_NONE) {
            of->first = index;
        } else {
            t->rows.data[of->last].next = index;
        }
        of->last = index;
    }
    return index;
}

/* ---- content ---- */

/* A session that has not sent a turn has no context: the root needs no reference. */
void aisim_trace_release(aisim_trace_client *t, aisim_node node)
{
    if (node.run != 0) {
        aisim_content_release(aisim_sim_content(t->sim), node.run);
    }
}

/* The prompt; its run has a reference for the caller. */
aisim_node aisim_trace_prompt(aisim_trace_client *t, const aisim_trace_pending *row,
                              uint32_t *tokens)
{
    aisim_content *content = aisim_sim_content(t->sim);
    aisim_node at = t->space;
    const aisim_trace_session *s =
        row->session == AISIM_NONE ? NULL : &t->sessions.data[row->session];
    *tokens = row->input_tokens;
    if (s != NULL && s->turns > 0 && row->delta) {
        at = s->context;
        *tokens += at.tokens;
    } else if (s != NULL && s->turns > 0 && row->has_kept) {
        uint32_t kept = row->kept_tokens < s->context.tokens ? row->kept_tokens : s->context.tokens;
        at = aisim_content_prefix(content, s->context, kept);
    }
    aisim_content_hold(content, at.run);
    if (row->n_ids > 0) {
        uint64_t count = 0;
        for (uint32_t i = 0; i < row->n_ids; i++) {
            count += row->ids[i].count;
        }
        uint64_t covered = count * row->block_size;
        covered = covered < row->input_tokens ? covered : row->input_tokens;
        aisim_node next = aisim_content_append_ids(content, at, row->ids, row->n_ids,
                                                   row->block_size, (uint32_t)covered);
        aisim_content_release(content, at.run);
        at = next;
    }
    aisim_node prompt = aisim_content_append_private(content, at, *tokens - at.tokens);
    aisim_content_release(content, at.run);
    return prompt;
}

/* Tokens an endless cache would reuse, in whole blocks of the engine. */
int64_t aisim_trace_ideal(aisim_trace_client *t, const aisim_trace_pending *row, uint32_t tokens)
{
    const aisim_trace_session *s =
        row->session == AISIM_NONE ? NULL : &t->sessions.data[row->session];
    if (row->delta || row->has_kept) {
        uint32_t block = aisim_sim_block_size(t->sim, t->config.pool);
        uint32_t kept = s == NULL || s->turns == 0 ? 0
                        : row->delta               ? s->context.tokens
                                                   : row->kept_tokens;
        kept = kept < tokens ? kept : tokens - 1;
        return kept - kept % block;
    }
    return (int64_t)aisim_reuse_add(t->ideal, 0, row->ids, row->n_ids, row->block_size,
                                    row->input_tokens, 0);
}

/* ---- sizes ---- */

aisim_status aisim_trace_mean_tokens(const aisim_trace *trace, double *tokens, aisim_error *err)
{
    aisim_trace *scan = NULL;
    aisim_map contexts = {0}; /* of sessions whose rows only add: prompt and answer so far */
    aisim_trace_row row;
    bool found = true;
    uint64_t rows = 0;
    *tokens = 0;
    aisim_status status = aisim_trace_again(trace, &scan, err);
    while (status == AISIM_OK && found) {
        status = aisim_trace_next(scan, &row, &found, err);
        if (status != AISIM_OK || !found) {
            break;
        }
        uint32_t input = row.input_tokens;
        if (row.delta && row.session != NULL) {
            uint64_t hash = aisim_hash_text(row.session);
            uint32_t before = aisim_map_get(&contexts, hash, 0);
            input += before == AISIM_NONE ? 0 : before;
            aisim_map_set(&contexts, hash, 0, input + row.output_tokens);
        }
        *tokens += (double)input + 0.5 * row.output_tokens;
        rows++;
    }
    aisim_trace_close(scan);
    aisim_map_free(&contexts);
    *tokens = rows > 0 && *tokens > 0 ? *tokens / (double)rows : 1.0;
    return status;
}
