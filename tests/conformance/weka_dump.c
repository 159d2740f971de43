/* weka_dump.c - prints what the trace reader made of a corpus: one JSON line per play, then a
 * total.
 *
 *     weka_dump [--block N] [--basis auto|absolute|relative] [--align floor|ceil] [--edges] PATH...
 *
 * Ideal reuse is that of an infinite cache per play with blocks of N tokens (default: recorded).
 * For comparison with vectors/weka_lowering.json and weka_lowering_all.csv. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workload/corpus.h"
#include "workload/reuse.h"

typedef struct counts {
    uint64_t plays, nodes, streams, relation[AISIM_RELATIONS], dispatch, completion, output;
    aisim_ideal_reuse reuse;
} counts;

static void print_counts(const counts *c)
{
    printf("\"nodes\":%" PRIu64 ",\"streams\":%" PRIu64, c->nodes, c->streams);
    for (int r = 0; r < AISIM_RELATIONS; r++) {
        printf(",\"%s\":%" PRIu64, aisim_play_relation_name((aisim_play_relation)r),
               c->relation[r]);
    }
    printf(",\"dispatch_edges\":%" PRIu64 ",\"completion_edges\":%" PRIu64
           ",\"input_tokens\":%" PRIu64 ",\"output_tokens\":%" PRIu64
           ",\"ideal_reused_tokens\":%" PRIu64,
           c->dispatch, c->completion, c->reuse.input_tokens, c->output, c->reuse.reused_tokens);
}

static counts count_play(const aisim_play *play, uint32_t block_size)
{
    counts c = {.plays = 1, .nodes = play->n_requests, .streams = play->n_conversations};
    for (uint32_t e = 0; e < play->n_edges; e++) {
        c.relation[play->edges[e].relation]++;
        if (play->edges[e].trigger == AISIM_TRIGGER_DISPATCH) {
            c.dispatch++;
        } else {
            c.completion++;
        }
    }
    for (uint32_t i = 0; i < play->n_requests; i++) {
        c.output += play->requests[i].output_tokens;
    }
    aisim_play_content content;
    aisim_play_content_build(play, false, &content);
    c.reuse = aisim_ideal_reuse_play(play, &content, block_size);
    aisim_play_content_deinit(&content);
    return c;
}

static void add(counts *sum, const counts *c)
{
    sum->plays += c->plays;
    sum->nodes += c->nodes;
    sum->streams += c->streams;
    for (int r = 0; r < AISIM_RELATIONS; r++) {
        sum->relation[r] += c->relation[r];
    }
    sum->dispatch += c->dispatch;
    sum->completion += c->completion;
    sum->output += c->output;
    sum->reuse.input_tokens += c->reuse.input_tokens;
    sum->reuse.reused_tokens += c->reuse.reused_tokens;
}

static void print_text(const char *text)
{
    putchar('"');
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            printf("\\%c", c);
        } else if (c < 0x20) {
            printf("\\u%04x", c);
        } else {
            putchar(c);
        }
    }
    putchar('"');
}

static void print_edges(const aisim_play *play)
{
    printf(",\"edges\":[");
    for (uint32_t e = 0; e < play->n_edges; e++) {
        const aisim_play_edge *edge = &play->edges[e];
        char source[48];
        char target[48];
        printf("%s[\"%s\",\"%s\",\"%s\",%.6f,\"%s\"]", e > 0 ? "," : "",
               aisim_play_request_name(play, edge->source, source),
               aisim_play_request_name(play, edge->target, target),
               edge->trigger == AISIM_TRIGGER_DISPATCH ? "dispatch" : "completion",
               (double)edge->delay_ns / 1e6,
               aisim_play_relation_name((aisim_play_relation)edge->relation));
    }
    printf("]");
}

static void print_corpus(const aisim_corpus *corpus, uint32_t block_size, bool edges)
{
    counts total = {0};
    for (uint32_t i = 0; i < corpus->n_plays; i++) {
        const aisim_play *play = &corpus->plays[i];
        counts c = count_play(play, block_size);
        printf("{\"id\":");
        print_text(play->id);
        putchar(',');
        print_counts(&c);
        printf(",\"first_t\":%.9f,\"last_start\":%.9f", (double)play->first_start_ns / 1e9,
               (double)play->last_start_ns / 1e9);
        if (edges) {
            print_edges(play);
        }
        puts("}");
        add(&total, &c);
    }
    printf("{\"total\":true,\"plays\":%" PRIu64 ",", total.plays);
    print_counts(&total);
    printf(",\"block_size\":%" PRIu32 ",\"resolved_basis\":\"%s\",\"digest\":\"%016" PRIx64 "\"}\n",
           corpus->block_size, corpus->basis == AISIM_BASIS_RELATIVE ? "relative" : "absolute",
           corpus->digest);
}

int main(int argc, char **argv)
{
    aisim_corpus_options options = {0};
    uint32_t block_size = 0;
    bool edges = false;
    int i = 1;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--edges") == 0) {
            edges = true;
        } else if (strcmp(argv[i], "--block") == 0 && i + 1 < argc) {
            block_size = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--basis") == 0 && i + 1 < argc) {
            i++;
            options.nested_timestamp_basis = strcmp(argv[i], "relative") == 0 ? AISIM_BASIS_RELATIVE
                                             : strcmp(argv[i], "absolute") == 0
                                                 ? AISIM_BASIS_ABSOLUTE
                                                 : AISIM_BASIS_AUTO;
        } else if (strcmp(argv[i], "--align") == 0 && i + 1 < argc) {
            i++;
            options.align_inputs =
                strcmp(argv[i], "ceil") == 0 ? AISIM_ALIGN_CEIL : AISIM_ALIGN_FLOOR;
        } else {
            fprintf(stderr, "weka_dump: unknown option %s\n", argv[i]);
            return 2;
        }
    }
    aisim_error err = {0};
    aisim_corpus *corpus = aisim_corpus_new(&options);
    aisim_status status =
        aisim_corpus_add_paths(corpus, (const char *const *)argv + i, (uint32_t)(argc - i), &err);
    if (status == AISIM_OK) {
        status = aisim_corpus_finish(corpus, &err);
    }
    if (status == AISIM_OK) {
        print_corpus(corpus, block_size > 0 ? block_size : corpus->block_size, edges);
    } else {
        char text[2048];
        fprintf(stderr, "weka_dump: %s\n", aisim_error_format(&err, text, sizeof text));
    }
    aisim_corpus_free(corpus);
    return status == AISIM_OK ? 0 : 1;
}
