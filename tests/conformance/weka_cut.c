/* weka_cut.c - cuts plays at given fractions of their time, for vectors/weka_snapshot.json.
 *
 *     weka_cut FRACTION,... FILE...    one JSON line per play and fraction: history, primers, what
 * is free */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "workload/agentx_snapshot.h"
#include "workload/corpus.h"

static void print_cut(const aisim_play *play, double fraction)
{
    aisim_agentx_snapshot cut;
    aisim_error err = {0};
    int64_t t_star_ns = aisim_agentx_t_star_ns(play, fraction);
    aisim_agentx_snapshot_cut(play, t_star_ns, &cut, &err);
    json_int_t live_edges = 0;
    json_t *primers = json_array();
    json_t *free_requests = json_array();
    char name[48];
    for (uint32_t i = 0; i < cut.n_primers; i++) {
        uint32_t r = cut.primers[i];
        json_array_append_new(
            primers, json_pack("{s:s,s:I}", "id", aisim_play_request_name(play, r, name),
                               "input_tokens", (json_int_t)play->requests[r].input_tokens));
    }
    for (uint32_t i = 0; i < play->n_requests; i++) {
        if (cut.history[i]) {
            continue;
        }
        uint32_t live = aisim_agentx_live_edges(play, &cut, i);
        live_edges += live;
        if (live == 0) {
            int64_t delay_ns = aisim_agentx_remaining_ns(play, &cut, i, true);
            json_array_append_new(
                free_requests, json_pack("{s:s,s:o}", "id", aisim_play_request_name(play, i, name),
                                         "delay_ms", json_real((double)delay_ns / 1e6)));
        }
    }
    json_t *out = json_pack(
        "{s:s,s:f,s:f,s:I,s:I,s:I,s:I,s:o,s:o}", "id", play->id, "fraction", fraction, "t_star_s",
        aisim_s_from_ns(t_star_ns), "history", (json_int_t)(play->n_requests - cut.retained),
        "retained", (json_int_t)cut.retained, "crossing", (json_int_t)cut.crossing, "live_edges",
        live_edges, "primers", primers, "initially_free", free_requests);
    char *line = json_dumps(out, JSON_COMPACT | JSON_REAL_PRECISION(17));
    puts(line);
    free(line);
    json_decref(out);
    aisim_agentx_snapshot_deinit(&cut);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: weka_cut FRACTION,... FILE...\n");
        return 2;
    }
    aisim_error err = {0};
    aisim_corpus *corpus = aisim_corpus_new(NULL);
    aisim_status status =
        aisim_corpus_add_paths(corpus, (const char *const *)argv + 2, (uint32_t)(argc - 2), &err);
    if (status == AISIM_OK) {
        status = aisim_corpus_finish(corpus, &err);
    }
    for (uint32_t i = 0; status == AISIM_OK && i < corpus->n_plays; i++) {
        char *rest = argv[1];
        while (*rest != '\0') {
            print_cut(&corpus->plays[i], strtod(rest, &rest));
            rest += *rest == ',';
        }
    }
    if (status != AISIM_OK) {
        char text[2048];
        fprintf(stderr, "weka_cut: %s\n", aisim_error_format(&err, text, sizeof text));
    }
    aisim_corpus_free(corpus);
    return status == AISIM_OK ? 0 : 1;
}
