/* test_weka.c - reading and lowering of recorded plays (traffic 1). */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "workload/corpus.h"

#define HEAD "{\"id\":\"a\",\"block_size\":64,\"hash_id_scope\":\"local\",\"requests\":["
#define TAIL "]}"
#define TURN "{\"t\":0,\"type\":\"n\",\"model\":\"m\",\"in\":130,\"out\":4,\"hash_ids\":[0,1]}"
#define SUB "{\"t\":1,\"type\":\"subagent\",\"agent_id\":\"x\","

static aisim_status add(aisim_corpus *corpus, const char *text, aisim_error *err)
{
    return aisim_corpus_add_text(corpus, text, strlen(text), "t.jsonl", 7, err);
}

static aisim_corpus *corpus_of(const char *const *plays, uint32_t n,
                               const aisim_corpus_options *options)
{
    aisim_error err = {0};
    aisim_corpus *corpus = aisim_corpus_new(options);
    for (uint32_t i = 0; i < n; i++) {
        CHECK_EQ(add(corpus, plays[i], &err), AISIM_OK);
    }
    CHECK_EQ(aisim_corpus_finish(corpus, &err), AISIM_OK);
    if (err.code != AISIM_OK) {
        printf("    %s\n", err.text);
    }
    return corpus;
}

/* ---- what is refused, and how ------------------------------------------------------------------
 */

typedef struct refusal {
    const char *text;
    aisim_status code;
    const char *mentions[3];
} refusal;

static const refusal REFUSALS[] = {
    {"", AISIM_EPARSE, {"JSON"}},
    {"{\"id\":\"a\"", AISIM_EPARSE, {"JSON"}},
    {HEAD TURN TAIL "x", AISIM_EPARSE, {"JSON"}},
    {"{\"id\":\"a\",\"id\":\"b\"}", AISIM_EPARSE, {"JSON"}},
    {"[1,2]", AISIM_EINVAL, {"array", "object per play"}},
    {"{\"x\":1,\"y\":2}", AISIM_EINVAL, {"'id'", "keys found: x, y"}},
    {"{\"id\":\"\"}", AISIM_EINVAL, {"'id'", "nonempty"}},
    {"{\"id\":\"a\",\"hash_id_scope\":\"local\",\"requests\":[]}", AISIM_EINVAL, {"block_size"}},
    {"{\"id\":\"a\",\"block_size\":0}", AISIM_ERANGE, {"block_size", "from 1 to"}},
    {"{\"id\":\"a\",\"block_size\":64.5}", AISIM_EINVAL, {"block_size", "64.5"}},
    {"{\"id\":\"a\",\"block_size\":64,\"hash_id_scope\":\"global\"}",
     AISIM_EINVAL,
     {"hash_id_scope", "global", "local"}},
    {HEAD TAIL, AISIM_EINVAL, {"requests", "no model request"}},
    {"{\"id\":\"a\",\"block_size\":64,\"hash_id_scope\":\"local\",\"requests\":{}}",
     AISIM_EINVAL,
     {"requests", "array"}},
    {HEAD "3" TAIL, AISIM_EINVAL, {"outer:0", "object"}},
    {HEAD "{\"type\":\"z\"}" TAIL, AISIM_EINVAL, {"outer:0", "type", "subagent"}},
    {HEAD TURN ",{\"type\":\"n\",\"model\":\"m\",\"in\":1,\"out\":1}" TAIL,
     AISIM_EINVAL,
     {"outer:1", "'t'", "seconds"}},
    {HEAD "{\"t\":-1,\"type\":\"n\",\"model\":\"m\",\"in\":1,\"out\":1}" TAIL,
     AISIM_ERANGE,
     {"-1"}},
    {HEAD "{\"t\":1e300,\"type\":\"n\",\"model\":\"m\",\"in\":1,\"out\":1}" TAIL,
     AISIM_ERANGE,
     {"'t'", "1e+300"}},
    {HEAD "{\"t\":NaN,\"type\":\"n\",\"model\":\"m\",\"in\":1,\"out\":1}" TAIL,
     AISIM_EPARSE,
     {"NaN"}},
    {HEAD "{\"t\":\"0\",\"type\":\"n\",\"model\":\"m\",\"in\":1,\"out\":1}" TAIL,
     AISIM_EINVAL,
     {"'t'", "\"0\""}},
    {HEAD "{\"t\":0,\"type\":\"n\",\"model\":\"m\",\"in\":0,\"out\":1}" TAIL,
     AISIM_ERANGE,
     {"'in'"}},
    {HEAD "{\"t\":0,\"type\":\"n\",\"model\":\"m\",\"in\":1,\"out\":-1}" TAIL,
     AISIM_ERANGE,
     {"'out'"}},
    {HEAD "{\"t\":0,\"type\":\"n\",\"model\":\"m\",\"in\":3000000000,\"out\":1}" TAIL,
     AISIM_ERANGE,
     {"'in'", "3000000000"}},
    {HEAD "{\"t\":0,\"type\":\"n\",\"model\":7,\"in\":1,\"out\":1}" TAIL,
     AISIM_EINVAL,
     {"'model'", "7"}},
    {HEAD "{\"t\":0,\"type\":\"n\",\"model\":\"m\",\"in\":1,\"out\":1,\"api_time\":-2}" TAIL,
     AISIM_ERANGE,
     {"api_time"}},
    {HEAD "{\"t\":0,\"type\":\"n\",\"model\":\"m\",\"in\":1,\"out\":1,\"hash_ids\":[1,-2]}" TAIL,
     AISIM_ERANGE,
     {"element 1", "hash_ids", "-2"}},
    {HEAD "{\"t\":0,\"type\":\"n\",\"model\":\"m\",\"in\":1,\"out\":1,\"hash_ids\":{}}" TAIL,
     AISIM_EINVAL,
     {"hash_ids", "object"}},
    {HEAD "{\"t\":0,\"type\":\"n\",\"model\":\"m\",\"in\":1,\"out\":1,\"hash_runs\":[1,2,3]}" TAIL,
     AISIM_EINVAL,
     {"hash_runs", "pairs"}},
    {HEAD "{\"t\":0,\"type\":\"n\",\"model\":\"m\",\"in\":1,\"out\":1,\"hash_runs\":[1,0]}" TAIL,
     AISIM_ERANGE,
     {"hash_runs", "element 1"}},
    {HEAD "{\"t\":0,\"type\":\"n\",\"model\":\"m\",\"in\":1,\"out\":1,\"hash_ids\":[1],"
          "\"hash_runs\":[1,1]}" TAIL,
     AISIM_EINVAL,
     {"not both"}},
    {HEAD SUB "\"status\":\"failed\",\"requests\":[" TURN "]}" TAIL,
     AISIM_EINVAL,
     {"status", "failed", "async_launched"}},
    {HEAD SUB "\"requests\":[" TURN "]}" TAIL, AISIM_EINVAL, {"status", "keys found: t, type"}},
    {HEAD TURN "," SUB "\"status\":\"completed\",\"requests\":[]}" TAIL,
     AISIM_EINVAL,
     {"outer:1", "not modelled"}},
    {HEAD SUB "\"status\":\"completed\",\"requests\":[" SUB
              "\"status\":\"completed\",\"requests\":[" TURN "]}]}" TAIL,
     AISIM_EINVAL,
     {"outer:0:inner:0", "do not nest"}},
    {HEAD "{\"t\":1,\"type\":\"subagent\",\"agent_id\":\"\",\"status\":\"completed\"}" TAIL,
     AISIM_EINVAL,
     {"agent_id"}},
    {HEAD SUB "\"status\":\"completed\",\"duration_ms\":-5,\"requests\":[" TURN "]}" TAIL,
     AISIM_ERANGE,
     {"duration_ms", "milliseconds"}},
    {HEAD SUB "\"status\":\"async_launched\",\"requests\":[]}" TAIL,
     AISIM_EINVAL,
     {"no model request"}},
};

static void test_refusals(void)
{
    for (size_t i = 0; i < sizeof REFUSALS / sizeof REFUSALS[0]; i++) {
        const refusal *r = &REFUSALS[i];
        aisim_error err = {0};
        aisim_corpus *corpus = aisim_corpus_new(NULL);
        CHECK_EQ(add(corpus, r->text, &err), r->code);
        CHECK_EQ(err.line, 7);
        CHECK_STR(err.file, "t.jsonl");
        for (int k = 0; k < 3 && r->mentions[k] != NULL; k++) {
            CHECK(strstr(err.text, r->mentions[k]) != NULL);
            if (strstr(err.text, r->mentions[k]) == NULL) {
                printf("    case %zu wants '%s': %s\n", i, r->mentions[k], err.text);
            }
        }
        aisim_corpus_free(corpus);
    }
}

static void test_refused_corpora(void)
{
    aisim_error err = {0};
    aisim_corpus *corpus = aisim_corpus_new(NULL);
    CHECK_EQ(aisim_corpus_finish(corpus, &err), AISIM_EINVAL);
    aisim_corpus_free(corpus);

    err = (aisim_error){0};
    corpus = aisim_corpus_new(NULL);
    CHECK_EQ(add(corpus, HEAD TURN TAIL, &err), AISIM_OK);
    CHECK_EQ(add(corpus, HEAD TURN TAIL, &err), AISIM_EEXIST);
    CHECK(strstr(err.text, "t.jsonl:7") != NULL);
    aisim_corpus_free(corpus);

    err = (aisim_error){0};
    corpus = aisim_corpus_new(NULL);
    CHECK_EQ(add(corpus, HEAD TURN TAIL, &err), AISIM_OK);
    CHECK_EQ(add(corpus,
                 "{\"id\":\"b\",\"block_size\":32,\"hash_id_scope\":\"local\",\"requests\":[" TURN
                 "]}",
                 &err),
             AISIM_EINVAL);
    CHECK(strstr(err.text, "block_size") != NULL);
    aisim_corpus_free(corpus);
}

/* A join target that starts before its child ends contradicts itself (traffic 1.6 C). */
static void test_refused_graphs(void)
{
    aisim_error err = {0};
    aisim_corpus *corpus = aisim_corpus_new(NULL);
    CHECK_EQ(add(corpus,
                 HEAD TURN "," SUB "\"status\":\"completed\",\"duration_ms\":1000,\"requests\":["
                           "{\"t\":1,\"type\":\"n\",\"model\":\"m\",\"in\":1,\"out\":1,"
                           "\"api_time\":9}]},"
                           "{\"t\":5,\"type\":\"n\",\"model\":\"m\",\"in\":130,\"out\":4,"
                           "\"hash_ids\":[0,1]}" TAIL,
                 &err),
             AISIM_OK);
    CHECK_EQ(aisim_corpus_finish(corpus, &err), AISIM_EINVAL);
    CHECK(strstr(err.text, "outer:2") != NULL && strstr(err.text, "outer:1:inner:0") != NULL);
    CHECK_EQ(err.line, 7);
    aisim_corpus_free(corpus);
}

/* ---- lowering ----------------------------------------------------------------------------------
 */

static const char EXAMPLE[] =
    "{\"id\":\"demo-1\",\"models\":[\"big\",\"small\"],\"block_size\":64,"
    "\"hash_id_scope\":\"local\",\"ignored\":{\"x\":[1]},\"requests\":["
    "{\"t\":0.0,\"type\":\"s\",\"model\":\"big\",\"in\":200,\"out\":12,\"hash_ids\":[0,1,2],"
    "\"api_time\":1.5,\"stop\":null},"
    "{\"t\":4.0,\"type\":\"n\",\"model\":\"big\",\"in\":330,\"out\":40,\"hash_runs\":[0,5],"
    "\"api_time\":2.0},"
    "{\"t\":6.2,\"type\":\"subagent\",\"agent_id\":\"a1\",\"status\":\"completed\","
    "\"duration_ms\":5000,\"requests\":["
    "{\"t\":6.2,\"type\":\"n\",\"model\":\"small\",\"in\":130,\"out\":20,\"hash_ids\":[50,51],"
    "\"api_time\":1.0},"
    "{\"t\":8.0,\"type\":\"n\",\"model\":\"small\",\"in\":260,\"out\":30,"
    "\"hash_ids\":[50,51,52,53],\"api_time\":2.0}]},"
    "{\"t\":12.0,\"type\":\"n\",\"model\":\"big\",\"in\":460,\"out\":25,"
    "\"hash_ids\":[0,1,2,3,4,5,6],\"api_time\":1.8}]}";

static bool has_edge(const aisim_play *play, const char *source, const char *target,
                     aisim_play_trigger trigger, int64_t delay_ns, aisim_play_relation relation)
{
    for (uint32_t e = 0; e < play->n_edges; e++) {
        const aisim_play_edge *edge = &play->edges[e];
        char a[48];
        char b[48];
        if (strcmp(aisim_play_request_name(play, edge->source, a), source) == 0 &&
            strcmp(aisim_play_request_name(play, edge->target, b), target) == 0 &&
            edge->trigger == (uint8_t)trigger && edge->delay_ns == delay_ns &&
            edge->relation == (uint8_t)relation) {
            return true;
        }
    }
    return false;
}

/* The example of traffic 1.5. */
static void test_example(void)
{
    const char *plays[] = {EXAMPLE};
    aisim_corpus *corpus = corpus_of(plays, 1, NULL);
    const aisim_play *p = &corpus->plays[0];
    CHECK_EQ(corpus->basis, AISIM_BASIS_ABSOLUTE);
    CHECK_EQ(p->n_requests, 5);
    CHECK_EQ(p->n_edges, 5);
    CHECK_EQ(p->n_conversations, 2);
    CHECK(has_edge(p, "outer:0", "outer:1", AISIM_TRIGGER_COMPLETION, 2500000000,
                   AISIM_RELATION_SEQUENCE));
    CHECK(has_edge(p, "outer:1", "outer:2:inner:0", AISIM_TRIGGER_COMPLETION, 200000000,
                   AISIM_RELATION_SPAWN));
    CHECK(has_edge(p, "outer:2:inner:0", "outer:2:inner:1", AISIM_TRIGGER_COMPLETION, 800000000,
                   AISIM_RELATION_SEQUENCE));
    CHECK(has_edge(p, "outer:1", "outer:3", AISIM_TRIGGER_COMPLETION, 6000000000,
                   AISIM_RELATION_SEQUENCE));
    CHECK(has_edge(p, "outer:2:inner:1", "outer:3", AISIM_TRIGGER_COMPLETION, 2000000000,
                   AISIM_RELATION_JOIN));
    CHECK(p->conversations[1].lineage);
    CHECK_EQ(p->conversations[1].parent, 0);
    CHECK_EQ(p->conversations[1].root, 0);
    CHECK_EQ(p->conversations[0].parent, AISIM_NONE);
    aisim_corpus_free(corpus);
}

/* traffic 1.4: one early child makes everything relative. */
static void test_basis(void)
{
    const char *relative =
        "{\"id\":\"r\",\"block_size\":64,\"hash_id_scope\":\"local\",\"requests\":[" TURN
        ",{\"t\":10,\"type\":\"subagent\",\"agent_id\":\"x\",\"status\":\"completed\","
        "\"requests\":[{\"t\":0.5,\"type\":\"n\",\"model\":\"m\",\"in\":9,\"out\":1}]}]}";
    const char *plays[] = {HEAD TURN TAIL, relative};
    aisim_corpus *corpus = corpus_of(plays, 2, NULL);
    CHECK_EQ(corpus->basis, AISIM_BASIS_RELATIVE);
    CHECK_EQ(corpus->plays[1].requests[1].start_ns, 10500000000);
    aisim_corpus_free(corpus);
    aisim_corpus_options options = {.nested_timestamp_basis = AISIM_BASIS_ABSOLUTE};
    corpus = corpus_of(plays, 2, &options);
    CHECK_EQ(corpus->basis, AISIM_BASIS_ABSOLUTE);
    CHECK_EQ(corpus->plays[1].requests[1].start_ns, 500000000);
    aisim_corpus_free(corpus);
}

/* traffic 1.3 */
static void test_align(void)
{
    const char *text = HEAD "{\"t\":0,\"type\":\"n\",\"model\":\"m\",\"in\":130,\"out\":4,"
                            "\"hash_ids\":[0,1,2]},"
                            "{\"t\":1,\"type\":\"n\",\"model\":\"m\",\"in\":10,\"out\":4}" TAIL;
    const uint32_t wanted[3][2] = {{130, 10}, {128, 64}, {192, 64}};
    const uint32_t known[3][2] = {{2, 0}, {2, 0}, {3, 0}};
    for (int i = 0; i < 3; i++) {
        aisim_corpus_options options = {.align_inputs = (aisim_align_inputs)i};
        aisim_corpus *corpus = corpus_of(&text, 1, &options);
        for (uint32_t k = 0; k < 2; k++) {
            CHECK_EQ(corpus->plays[0].requests[k].input_tokens, wanted[i][k]);
            CHECK_EQ(aisim_play_known_blocks(&corpus->plays[0], k), known[i][k]);
        }
        aisim_corpus_free(corpus);
    }
}

/* traffic 1.7: two parents leave lineage absent, below them too; here by two spawn edges into one
 * conversation there is only one parent, so the plain cases are checked. */
static void test_lineage(void)
{
    /* a worker without fork hangs on the root; a background child behind it has it as root too */
    const char *text =
        HEAD "{\"t\":0,\"type\":\"n\",\"model\":\"m\",\"in\":256,\"out\":4,\"hash_ids\":[0,1,2,3],"
             "\"api_time\":5},"
             "{\"t\":1,\"type\":\"n\",\"model\":\"m\",\"in\":256,\"out\":400,"
             "\"hash_ids\":[9,10,11,12],\"api_time\":1},"
             "{\"t\":1.5,\"type\":\"subagent\",\"agent_id\":\"x\",\"status\":\"async_launched\","
             "\"requests\":[{\"t\":3,\"type\":\"n\",\"model\":\"m\",\"in\":9,\"out\":1}]},"
             "{\"t\":6,\"type\":\"n\",\"model\":\"m\",\"in\":320,\"out\":4,"
             "\"hash_ids\":[0,1,2,3,4]}" TAIL;
    aisim_corpus *corpus = corpus_of(&text, 1, NULL);
    const aisim_play *p = &corpus->plays[0];
    CHECK_EQ(p->n_conversations, 3);
    CHECK_EQ(p->conversations[1].parent, 0);
    CHECK_EQ(p->conversations[2].parent, 1);
    CHECK_EQ(p->conversations[2].root, 0);
    CHECK(p->conversations[2].lineage);
    aisim_corpus_free(corpus);
}

/* ---- files -------------------------------------------------------------------------------------
 */

static char folder[256];

static char *path_of(const char *name, char *out)
{
    snprintf(out, 400, "%s/%s", folder, name);
    return out;
}

static void write_file(const char *name, const char *text)
{
    char path[400];
    FILE *file = fopen(path_of(name, path), "wb");
    CHECK(file != NULL);
    if (file != NULL) {
        fputs(text, file);
        fclose(file);
    }
}

static const char PLAY[] = "{\"id\":\"%s\",\"block_size\":64,\"hash_id_scope\":\"local\","
                           "\"requests\":[" TURN "]}";

static char *play_named(const char *id, char *out)
{
    const char *end = strstr(PLAY, "%s");
    snprintf(out, 400, "%.*s%s%s", (int)(end - PLAY), PLAY, id, end + 2);
    return out;
}

static void check_order(const char *path, const char *order)
{
    aisim_error err = {0};
    char full[400];
    const char *paths[] = {path_of(path, full)};
    aisim_corpus *corpus = aisim_corpus_new(NULL);
    aisim_status status = aisim_corpus_add_paths(corpus, paths, 1, &err);
    CHECK_EQ(status, AISIM_OK);
    if (status == AISIM_OK && aisim_corpus_finish(corpus, &err) == AISIM_OK) {
        char got[64] = "";
        for (uint32_t i = 0; i < corpus->n_plays; i++) {
            strcat(got, corpus->plays[i].id);
            CHECK_EQ(corpus->plays[i].ordinal, i);
        }
        CHECK_STR(got, order);
    }
    aisim_corpus_free(corpus);
}

static void check_refused(const char *path, aisim_status code, const char *mention, int line)
{
    aisim_error err = {0};
    char full[400];
    const char *paths[] = {path_of(path, full)};
    aisim_corpus *corpus = aisim_corpus_new(NULL);
    CHECK_EQ(aisim_corpus_add_paths(corpus, paths, 1, &err), code);
    CHECK(strstr(err.text, mention) != NULL);
    CHECK_EQ(err.line, line);
    aisim_corpus_free(corpus);
}

static void test_files(void)
{
    const char *parent = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/aisim-test-XXXXXX", parent != NULL ? parent : "/tmp");
    CHECK(mkdtemp(folder) != NULL);
    char text[4][400];
    char line[2000];
    char path[400];
    mkdir(path_of("b", path), 0700);
    snprintf(line, sizeof line, "\xEF\xBB\xBF%s\r\n\r\n  \n%s\n", play_named("1", text[0]),
             play_named("2", text[1]));
    write_file("a.jsonl", line);
    write_file("b/x.json", play_named("3", text[2]));
    write_file("b.jsonl", play_named("4", text[3])); /* no line end */
    write_file("c.txt", "not a trace");
    write_file(".hidden.jsonl", "neither");
    check_order("a.jsonl", "12");
    check_order("", "1243"); /* by bytes of the path: "b.jsonl" < "b/x.json" */
    check_order("*.jsonl", "124");
    check_order("[b]*", "34"); /* the folder b, then b.jsonl */
    check_refused("none.jsonl", AISIM_ENOENT, "No such file", 0);
    check_refused("z*.jsonl", AISIM_ENOENT, "pattern", 0);
    write_file("e.jsonl", "\n\r\n");
    check_refused("e.jsonl", AISIM_EINVAL, "empty", 1);
    write_file("e.jsonl", "");
    check_refused("e.jsonl", AISIM_EINVAL, "empty", 1);
    snprintf(line, sizeof line, "%s\n{\"id\":\"half", text[0]);
    write_file("e.jsonl", line);
    check_refused("e.jsonl", AISIM_EPARSE, "JSON", 2);
    snprintf(line, sizeof line, "%s\n\n%s\n", text[0], text[0]);
    write_file("e.jsonl", line);
    check_refused("e.jsonl", AISIM_EEXIST, "e.jsonl:1", 3);
    write_file("b/x.json", "{\n \"id\": \"p\",\n \"block_size\": ]\n}\n");
    check_refused("b/x.json", AISIM_EPARSE, "JSON", 3);
    const char *names[] = {"a.jsonl", "b/x.json", "b.jsonl", "c.txt", ".hidden.jsonl", "e.jsonl"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        remove(path_of(names[i], path));
    }
    rmdir(path_of("b", path));
    rmdir(folder);
}

/* traffic 5: permuting the lines changes ordinals, not graphs; spelling does not change the digest.
 */
static void test_digest(void)
{
    const char *runs = HEAD "{\"t\":0.0,\"type\":\"n\",\"model\":\"m\",\"in\":130.0,\"out\":4,"
                            "\"hash_runs\":[0,1,1,1]}" TAIL;
    const char *plain[] = {HEAD TURN TAIL};
    const char *coded[] = {runs};
    aisim_corpus *a = corpus_of(plain, 1, NULL);
    aisim_corpus *b = corpus_of(coded, 1, NULL);
    CHECK(a->digest == b->digest);
    CHECK_EQ(b->plays[0].n_ids, 1);
    aisim_corpus_free(a);
    aisim_corpus_free(b);
    const char *one[] = {EXAMPLE, HEAD TURN TAIL};
    const char *other[] = {HEAD TURN TAIL, EXAMPLE};
    a = corpus_of(one, 2, NULL);
    b = corpus_of(other, 2, NULL);
    CHECK(a->digest != b->digest);
    CHECK_EQ(a->plays[0].n_edges, b->plays[1].n_edges);
    aisim_corpus_free(a);
    aisim_corpus_free(b);
}

int main(void)
{
    test_refusals();
    test_refused_corpora();
    test_refused_graphs();
    test_example();
    test_basis();
    test_align();
    test_lineage();
    test_files();
    test_digest();
    return check_done();
}
