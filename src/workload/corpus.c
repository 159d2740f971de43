/* corpus.c - collecting plays, deciding the time basis, lowering, digest.
 *
 * Reading and lowering are two passes because the basis is a fact about the whole corpus
 * (traffic 1.4). Between them only figures are kept, about 50 bytes per request. */
#include "workload/corpus.h"

#include <inttypes.h>
#include <string.h>

#include "base/array.h"
#include "base/rng.h"
#include "workload/corpus_files.h"

struct aisim_corpus_build {
    aisim_corpus_options options;
    AISIM_ARRAY(aisim_weka_play) plays;
    aisim_map ids; /* (hash of the id, attempt) -> play */
};

aisim_corpus *aisim_corpus_new(const aisim_corpus_options *options)
{
    aisim_corpus *corpus = aisim_alloc_zero(1, sizeof *corpus);
    corpus->build = aisim_alloc_zero(1, sizeof *corpus->build);
    if (options != NULL) {
        corpus->build->options = *options;
    }
    return corpus;
}

static void drop_build(aisim_corpus *corpus)
{
    struct aisim_corpus_build *build = corpus->build;
    if (build == NULL) {
        return;
    }
    for (uint32_t i = 0; i < build->plays.len; i++) {
        aisim_weka_play_deinit(&build->plays.data[i]);
    }
    aisim_array_free(&build->plays);
    aisim_map_free(&build->ids);
    aisim_free(build);
    corpus->build = NULL;
}

void aisim_corpus_free(aisim_corpus *corpus)
{
    if (corpus == NULL) {
        return;
    }
    drop_build(corpus);
    for (uint32_t i = 0; i < corpus->n_plays; i++) {
        aisim_play_deinit(&corpus->plays[i]);
    }
    aisim_free(corpus->plays);
    aisim_free(corpus);
}

/* One block size, no id twice: both are mistakes of the person who put the corpus together. */
static aisim_status check_against_others(aisim_corpus *corpus, const aisim_weka_play *play,
                                         aisim_error *err)
{
    struct aisim_corpus_build *build = corpus->build;
    if (build->plays.len > 0 && play->block_size != corpus->block_size) {
        return aisim_fail_at(err, AISIM_EINVAL, play->file, play->line, 0,
                             "play '%s': field 'block_size' is %" PRIu32 ", expected %" PRIu32
                             " like the plays before it (one corpus, one "
                             "block size)",
                             play->id, play->block_size, corpus->block_size);
    }
    uint64_t hash = aisim_hash_text(play->id);
    uint64_t attempt = 0;
    uint32_t other;
    while ((other = aisim_map_get(&build->ids, hash, attempt)) != AISIM_NONE) {
        const aisim_weka_play *seen = &build->plays.data[other];
        if (strcmp(seen->id, play->id) == 0) {
            return aisim_fail_at(err, AISIM_EEXIST, play->file, play->line, 0,
                                 "play id '%s' was already used at %s:%d; every play of a corpus "
                                 "needs its own",
                                 play->id, seen->file, seen->line);
        }
        attempt++;
    }
    aisim_map_set(&build->ids, hash, attempt, build->plays.len);
    return AISIM_OK;
}

/* A corpus of a million plays takes minutes; whoever wants to stop need not wait for its end. */
static aisim_status go_on(const struct aisim_corpus_build *build, const char *done, uint32_t n,
                          aisim_error *err)
{
    const volatile int *interrupt = build->options.interrupt;
    return interrupt == NULL || *interrupt == 0
               ? AISIM_OK
               : aisim_fail(err, AISIM_EINTERRUPTED, "interrupted after %" PRIu32 " plays were %s",
                            n, done);
}

aisim_status aisim_corpus_add_play(aisim_corpus *corpus, aisim_weka_play *play, aisim_error *err)
{
    aisim_status status = go_on(corpus->build, "added", corpus->build->plays.len, err);
    if (status == AISIM_OK) {
        status = check_against_others(corpus, play, err);
    }
    if (status != AISIM_OK) {
        aisim_weka_play_deinit(play);
        return status;
    }
    corpus->block_size = play->block_size;
    aisim_array_push(&corpus->build->plays, *play);
    *play = (aisim_weka_play){0};
    return AISIM_OK;
}

aisim_status aisim_corpus_add_text(aisim_corpus *corpus, const char *text, size_t size,
                                   const char *file, int line, aisim_error *err)
{
    aisim_weka_play play;
    aisim_status status = aisim_weka_parse(text, size, file, line, &play, err);
    return status == AISIM_OK ? aisim_corpus_add_play(corpus, &play, err) : status;
}

static aisim_status add_file(aisim_corpus *corpus, const char *path, aisim_error *err)
{
    size_t n = strlen(path);
    bool whole = n > 5 && strcmp(path + n - 5, ".json") == 0;
    uint32_t before = corpus->build->plays.len;
    aisim_line_reader reader;
    aisim_status status = aisim_line_reader_open(&reader, path, err);
    while (status == AISIM_OK) {
        bool found = false;
        status = aisim_line_reader_next(&reader, whole, &found, err);
        if (status != AISIM_OK || !found) {
            break;
        }
        status = aisim_corpus_add_text(corpus, reader.text, reader.size, path, reader.line, err);
    }
    if (status == AISIM_OK && corpus->build->plays.len == before) {
        status = aisim_fail_at(err, AISIM_EINVAL, path, 1, 0, "the file is empty, expected %s",
                               whole ? "one JSON object" : "one JSON object per line");
    }
    aisim_line_reader_close(&reader);
    return status;
}

aisim_status aisim_corpus_add_paths(aisim_corpus *corpus, const char *const *paths, uint32_t n,
                                    aisim_error *err)
{
    aisim_path_array files = {0};
    aisim_status status = AISIM_OK;
    for (uint32_t i = 0; i < n && status == AISIM_OK; i++) {
        status = aisim_expand_path(paths[i], &files, err);
    }
    for (uint32_t i = 0; i < files.len && status == AISIM_OK; i++) {
        status = add_file(corpus, files.data[i], err);
    }
    aisim_path_array_free(&files);
    return status;
}

static uint64_t mix(uint64_t digest, uint64_t value)
{
    return aisim_mix64(digest ^ value);
}

static uint64_t digest_play(uint64_t digest, const aisim_play *play)
{
    digest = mix(digest, aisim_hash_text(play->id));
    digest = mix(digest, play->n_requests);
    for (uint32_t i = 0; i < play->n_requests; i++) {
        const aisim_play_request *r = &play->requests[i];
        digest = mix(digest, (uint64_t)r->start_ns);
        digest = mix(digest, (uint64_t)r->end_ns);
        digest = mix(digest, (uint64_t)r->input_tokens << 32 | r->output_tokens);
        digest = mix(digest, (uint64_t)r->outer << 32 | r->inner);
        digest = mix(digest, aisim_hash_text(play->models[r->model]));
        for (uint32_t k = 0; k < r->id_runs; k++) {
            digest = mix(digest, play->ids[r->id_first + k].first);
            digest = mix(digest, play->ids[r->id_first + k].count);
        }
    }
    for (uint32_t e = 0; e < play->n_edges; e++) {
        const aisim_play_edge *edge = &play->edges[e];
        digest = mix(digest, (uint64_t)edge->source << 32 | edge->target);
        digest = mix(digest, (uint64_t)edge->delay_ns);
        digest = mix(digest, (uint64_t)edge->trigger << 8 | edge->relation);
    }
    return digest;
}

/* traffic 1.4: once for the whole corpus, never per request. */
static aisim_timestamp_basis resolve_basis(const struct aisim_corpus_build *build)
{
    if (build->options.nested_timestamp_basis != AISIM_BASIS_AUTO) {
        return build->options.nested_timestamp_basis;
    }
    for (uint32_t i = 0; i < build->plays.len; i++) {
        if (aisim_weka_has_relative_child(&build->plays.data[i])) {
            return AISIM_BASIS_RELATIVE;
        }
    }
    return AISIM_BASIS_ABSOLUTE;
}

aisim_status aisim_corpus_finish(aisim_corpus *corpus, aisim_error *err)
{
    struct aisim_corpus_build *build = corpus->build;
    if (build->plays.len == 0) {
        return aisim_fail(err, AISIM_EINVAL, "the corpus is empty, expected at least one play");
    }
    corpus->basis = resolve_basis(build);
    aisim_lowering_options options = {.relative = corpus->basis == AISIM_BASIS_RELATIVE,
                                      .align = build->options.align_inputs};
    corpus->plays = aisim_alloc_zero(build->plays.len, sizeof *corpus->plays);
    corpus->digest = mix(0, corpus->block_size);
    aisim_status status = AISIM_OK;
    for (uint32_t i = 0; i < build->plays.len && status == AISIM_OK; i++) {
        status = go_on(build, "lowered", i, err);
        if (status == AISIM_OK) {
            status = aisim_lower_play(&build->plays.data[i], &options, i, &corpus->plays[i], err);
        }
        if (status == AISIM_OK) {
            corpus->n_plays = i + 1;
            corpus->digest = digest_play(corpus->digest, &corpus->plays[i]);
        }
    }
    drop_build(corpus);
    return status;
}

aisim_corpus *aisim_corpus_of_plays(aisim_play *plays, uint32_t n)
{
    aisim_corpus *corpus = aisim_alloc_zero(1, sizeof *corpus);
    corpus->plays = plays;
    corpus->n_plays = n;
    corpus->block_size = n > 0 ? plays[0].block_size : 0;
    corpus->basis = AISIM_BASIS_ABSOLUTE;
    corpus->digest = mix(0, corpus->block_size);
    for (uint32_t i = 0; i < n; i++) {
        plays[i].ordinal = i;
        corpus->digest = digest_play(corpus->digest, &plays[i]);
    }
    return corpus;
}
