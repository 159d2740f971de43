/* bench_anchors.c - the speed anchors and scaling checks of spec/anchor-workloads.md as one table.
 *
 *     build/tests/aisim_bench_anchors [RUNS [PROGRAM]]      in the source folder; 3 runs,
 * build/aisim
 *
 * Each row runs the program RUNS times in a process of its own and shows the run with the least
 * wall time: of the simulation alone (wall), CPU time and peak memory of the whole process,
 * start-up included. A case "x / y" stands for a scaling check: its rows compute alike and must not
 * differ by more than 20 %. Nothing is asserted; read it on a quiet machine. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* struct rusage from wait4: the peak memory of one child (BSD and Linux; not in POSIX). */
pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage);

enum { SETS_MAX = 6 };

typedef struct bench_case {
    const char *name, *file;
    const char *sets[SETS_MAX];
} bench_case;

#define REQUESTS(n) "traffic.stop.requests=" #n
#define PROMPT(n) "traffic.source.input_tokens=" #n
#define OUTPUT(n) "traffic.source.output_tokens=" #n
#define HOST(n) "engine.workers.aggregated.kv_cache.host_offload.num_host_blocks=" #n

static const bench_case cases[] = {
    {"mtp-g2-120k-b2048", "scenarios/mtp_g2_120k.yaml", {NULL}},
    {"mtp-g2-v032-120k-b2048", "scenarios/mtp_g2_v032_120k.yaml", {NULL}},
    {"mtp-g2-30k-b8192", "scenarios/mtp_g2_30k.yaml", {NULL}},
    {"g2-120k-b2048-nomtp", "scenarios/g2_120k_nomtp.yaml", {NULL}},
    {"prompt / 30,000", "scenarios/mtp_g2_120k.yaml", {PROMPT(30000), REQUESTS(8192)}},
    {"prompt / 60,000", "scenarios/mtp_g2_120k.yaml", {PROMPT(60000), REQUESTS(4096)}},
    {"prompt / 120,000", "scenarios/mtp_g2_120k.yaml", {PROMPT(120000), REQUESTS(2048)}},
    /* the same with as many output tokens in all: a short prompt is not the longer talk */
    {"length / 30,000 + 64",
     "scenarios/mtp_g2_120k.yaml",
     {PROMPT(30000), OUTPUT(64), REQUESTS(8192)}},
    {"length / 60,000 + 128",
     "scenarios/mtp_g2_120k.yaml",
     {PROMPT(60000), OUTPUT(128), REQUESTS(4096)}},
    {"length / 120,000 + 256",
     "scenarios/mtp_g2_120k.yaml",
     {PROMPT(120000), OUTPUT(256), REQUESTS(2048)}},
    {"host / 100,000", "scenarios/mtp_g2_120k.yaml", {HOST(100000)}},
    {"host / 1,000,000", "scenarios/mtp_g2_120k.yaml", {HOST(1000000)}},
    {"host / 10,000,000", "scenarios/mtp_g2_120k.yaml", {HOST(10000000)}},
    {"decode 256", "tests/bench/decode.lua", {NULL}},
    {"decode 256, pass.end hook", "tests/bench/decode.lua", {"hook=true"}},
    {"agents C8, one worker", "scenarios/align_split.lua", {NULL}},
    {"agents C64, eight workers", "scenarios/agentx_routing.lua", {NULL}},
};

typedef struct figures {
    double wall_ms, passes, scheduled, cpu_ms, mib;
} figures;

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

static void run_program(const char *program, const bench_case *c, int out)
{
    const char *argv[6 + 2 * SETS_MAX] = {program, "run", c->file, "--format", "json"};
    int n = 5;
    for (int i = 0; i < SETS_MAX && c->sets[i] != NULL; i++) {
        argv[n++] = "--set";
        argv[n++] = c->sets[i];
    }
    dup2(out, STDOUT_FILENO);
    if (freopen("/dev/null", "w", stderr) == NULL) {
        _exit(126);
    }
    execv(program, (char *const *)argv);
    _exit(127);
}

static double number(const json_t *root, const char *a, const char *b, const char *c)
{
    const json_t *at = json_object_get(json_object_get(root, a), b);
    return json_number_value(c == NULL ? at : json_object_get(at, c));
}

/* @return 0, or the exit status of a program that failed */
static int measure(const char *program, const bench_case *c, figures *out)
{
    int pipe_ends[2], status = 0;
    struct rusage usage;
    if (pipe(pipe_ends) != 0) {
        return 1;
    }
    pid_t child = fork();
    if (child == 0) {
        close(pipe_ends[0]);
        run_program(program, c, pipe_ends[1]);
    }
    close(pipe_ends[1]);
    json_error_t err;
    json_t *root = json_loadfd(pipe_ends[0], JSON_DISABLE_EOF_CHECK, &err);
    for (char rest[4096]; read(pipe_ends[0], rest, sizeof rest) > 0;) {
    }
    close(pipe_ends[0]);
    wait4(child, &status, 0, &usage);
    if (root == NULL || status != 0) {
        json_decref(root);
        return status != 0 ? status : 1;
    }
    *out = (figures){.wall_ms = number(root, "wall", "wall_ms", NULL),
                     .passes = number(root, "wall", "passes", NULL),
                     .cpu_ms = 1e3 * (seconds(usage.ru_utime) + seconds(usage.ru_stime)),
                     .mib = (double)usage.ru_maxrss / 1024};
    out->scheduled = number(root, "distributions", "pass_requests", "mean") *
                     number(root, "distributions", "pass_requests", "n");
    json_decref(root);
    return 0;
}

static void show(const char *program, const bench_case *c, int runs)
{
    figures best = {0};
    for (int i = 0; i < runs; i++) {
        figures f;
        int status = measure(program, c, &f);
        if (status != 0) {
            printf("%-27s failed (status %d)\n", c->name, status);
            return;
        }
        if (i == 0 || f.wall_ms < best.wall_ms) {
            best = f;
        }
    }
    printf("%-27s %9.1f %9.0f %11.0f %8.0f %12.1f %9.1f %9.1f\n", c->name, best.wall_ms,
           best.passes, best.passes / best.wall_ms * 1e3, best.wall_ms / best.passes * 1e6,
           best.wall_ms / best.scheduled * 1e6, best.cpu_ms, best.mib);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int runs = argc > 1 ? atoi(argv[1]) : 3;
    const char *program = argc > 2 ? argv[2] : "build/aisim";
    if (runs < 1 || access(program, X_OK) != 0) {
        fprintf(stderr, "usage: aisim_bench_anchors [RUNS [PROGRAM]], in the source folder\n");
        return 2;
    }
    printf("%-27s %9s %9s %11s %8s %12s %9s %9s\n", "case", "wall ms", "passes", "passes/s",
           "ns/pass", "ns/scheduled", "CPU ms", "peak MiB");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        show(program, &cases[i], runs);
    }
    return 0;
}
