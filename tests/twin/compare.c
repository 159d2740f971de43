/* compare.c - aisim_compare: the engine against the block-by-block twin on random workloads (A10).
 *
 *     aisim_compare --count 2000 --seed 1 --jobs 2 --shrink
 *     aisim_compare --replay case.txt …
 *
 * Every workload is a function of (seed, index, features). Workers are processes: one that dies of
 * a broken invariant costs its workload, which is reported like a difference. The last line is
 * "N passed, N failed"; exit status 1 after a failure. */
#include "compare.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_JOBS = 16, MAX_FAILURES = 5, PATIENCE_S = 20 };

typedef struct options {
    uint64_t count, first, seed, features;
    uint32_t jobs;
    bool shrink, quiet;
    const char *save; /* folder for failing cases */
} options;

/* One worker's results, in memory shared with the parent. */
typedef struct slot {
    uint64_t next; /* workload in progress */
    uint64_t done, failed;
    uint64_t failures[MAX_FAILURES];
    uint64_t totals[COMPARE_COUNTER_COUNT];    /* summed over workloads */
    uint64_t workloads[COMPARE_COUNTER_COUNT]; /* in how many it was not 0 */
} slot;

static void note_failure(slot *s, uint64_t index)
{
    if (s->failed < MAX_FAILURES) {
        s->failures[s->failed] = index;
    }
    s->failed++;
}

static void work(const options *o, slot *s)
{
    for (; s->next < o->first + o->count; s->next += o->jobs) {
        compare_case *c = compare_make(o->seed, s->next, o->features);
        compare_result result;
        alarm(PATIENCE_S);
        compare_run(c, &result);
        compare_free(c);
        s->done++;
        for (uint32_t i = 0; i < COMPARE_COUNTER_COUNT; i++) {
            s->totals[i] += result.counters[i];
            s->workloads[i] += result.counters[i] > 0;
        }
        if (!result.same) {
            note_failure(s, s->next);
        }
    }
}

static pid_t start(const options *o, slot *s)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        work(o, s);
        fflush(NULL);
        exit(0); /* not _exit: leaks and coverage are reported at exit */
    }
    return child;
}

static void run_all(const options *o, slot *slots)
{
    pid_t children[MAX_JOBS];
    uint32_t running = o->jobs;
    for (uint32_t i = 0; i < o->jobs; i++) {
        slots[i].next = o->first + i;
        children[i] = start(o, &slots[i]);
    }
    while (running > 0) {
        int status;
        pid_t child = wait(&status);
        for (uint32_t i = 0; i < o->jobs; i++) {
            if (children[i] != child) {
                continue;
            }
            if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
                running--;
                break;
            }
            slots[i].done++; /* it died in the middle of a workload */
            note_failure(&slots[i], slots[i].next);
            slots[i].next += o->jobs;
            children[i] = start(o, &slots[i]);
        }
    }
}

static void print_coverage(const slot *sum)
{
    printf("%-55s %14s %10s\n", "reached", "times", "workloads");
    for (uint32_t i = 0; i < COMPARE_COUNTER_COUNT; i++) {
        double share = sum->done == 0 ? 0.0 : 100.0 * (double)sum->workloads[i] / (double)sum->done;
        printf("  %-53s %14" PRIu64 " %8.1f %%\n", compare_counter_texts[i], sum->totals[i], share);
    }
}

static void print_failure(const options *o, uint64_t index)
{
    char difference[512];
    compare_case *c = compare_make(o->seed, index, o->features);
    compare_run_apart(c, difference);
    printf("DIFFERENCE seed %" PRIu64 " workload %" PRIu64 ": %s\n", o->seed, index, difference);
    if (o->shrink) {
        uint32_t attempts = compare_shrink(c);
        compare_run_apart(c, difference);
        printf("shrunk in %" PRIu32 " attempts: %s\n", attempts, difference);
    }
    printf("---- case (aisim_compare --replay FILE)\n");
    compare_print(c, stdout);
    printf("----\n");
    if (o->save != NULL) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%" PRIu64 "-%" PRIu64 ".txt", o->save, o->seed, index);
        FILE *file = fopen(path, "w");
        if (file != NULL) {
            fprintf(file, "# %s\n", difference);
            compare_print(c, file);
            fclose(file);
        }
    }
    compare_free(c);
}

/* Memory that the workers share with the parent: a file without a name. */
static slot *shared_slots(void)
{
    FILE *file = tmpfile();
    size_t size = MAX_JOBS * sizeof(slot);
    if (file == NULL || ftruncate(fileno(file), (off_t)size) != 0) {
        return NULL;
    }
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    fclose(file);
    return memory == MAP_FAILED ? NULL : memory;
}

static int run_random(const options *o)
{
    slot *slots = shared_slots();
    if (slots == NULL) {
        perror("aisim_compare");
        return 2;
    }
    run_all(o, slots);
    slot sum = {0};
    uint32_t printed = 0;
    for (uint32_t i = 0; i < o->jobs; i++) {
        sum.done += slots[i].done;
        sum.failed += slots[i].failed;
        for (uint32_t k = 0; k < COMPARE_COUNTER_COUNT; k++) {
            sum.totals[k] += slots[i].totals[k];
            sum.workloads[k] += slots[i].workloads[k];
        }
        for (uint32_t k = 0; k < slots[i].failed && k < MAX_FAILURES && printed < MAX_FAILURES;
             k++) {
            print_failure(o, slots[i].failures[k]);
            printed++;
        }
    }
    if (!o->quiet) {
        print_coverage(&sum);
    }
    printf("%" PRIu64 " passed, %" PRIu64 " failed\n", sum.done - sum.failed, sum.failed);
    munmap(slots, MAX_JOBS * sizeof *slots);
    return sum.failed == 0 ? 0 : 1;
}

static int replay(char **paths, int n, bool shrink)
{
    int passed = 0, failed = 0;
    for (int i = 0; i < n; i++) {
        FILE *file = strcmp(paths[i], "-") == 0 ? stdin : fopen(paths[i], "r");
        compare_case *c = file == NULL ? NULL : compare_parse(file, paths[i]);
        char difference[512] = "cannot be read";
        bool same = c != NULL && compare_run_apart(c, difference);
        printf("%s %s  %s\n", same ? "ok  " : "FAIL", paths[i], same ? "" : difference);
        if (c != NULL && !same && shrink) {
            compare_shrink(c);
            compare_print(c, stdout);
        }
        *(same ? &passed : &failed) += 1;
        compare_free(c);
        if (file != NULL && file != stdin) {
            fclose(file);
        }
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}

static int usage(const char *why)
{
    fprintf(stderr,
            "aisim_compare: %s\n"
            "usage: aisim_compare [--count N] [--first N] [--seed S] [--jobs J] [--features LIST]\n"
            "                     [--shrink] [--save FOLDER] [--print] [--quiet]\n"
            "       aisim_compare [--shrink] --replay FILE...\n"
            "features (a,b = only these; +a,-b = changes to the default; all):\n ",
            why);
    for (uint32_t i = 0; i < COMPARE_FEATURE_COUNT; i++) {
        bool on = (compare_features_default() >> i & 1) != 0;
        fprintf(stderr, " %s%s", on ? "" : "-", compare_feature_names[i]);
    }
    fputc('\n', stderr);
    return 2;
}

int main(int argc, char **argv)
{
    options o = {.count = 2000, .seed = 1, .jobs = 1, .features = compare_features_default()};
    bool print = false;
    for (int i = 1; i < argc; i++) {
        const char *key = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(key, "--shrink") == 0) {
            o.shrink = true;
        } else if (strcmp(key, "--quiet") == 0) {
            o.quiet = true;
        } else if (strcmp(key, "--print") == 0) {
            print = true;
        } else if (strcmp(key, "--replay") == 0) {
            return replay(argv + i + 1, argc - i - 1, o.shrink);
        } else if (*value == '\0') {
            return usage(key);
        } else {
            i++;
            if (strcmp(key, "--count") == 0) {
                o.count = strtoull(value, NULL, 10);
            } else if (strcmp(key, "--first") == 0) {
                o.first = strtoull(value, NULL, 10);
            } else if (strcmp(key, "--seed") == 0) {
                o.seed = strtoull(value, NULL, 10);
            } else if (strcmp(key, "--jobs") == 0) {
                o.jobs = (uint32_t)strtoul(value, NULL, 10);
            } else if (strcmp(key, "--save") == 0) {
                o.save = value;
            } else if (strcmp(key, "--features") == 0) {
                if (compare_features_parse(value, &o.features) != NULL) {
                    return usage(compare_features_parse(value, &o.features));
                }
            } else {
                return usage(key);
            }
        }
    }
    if (o.jobs < 1 || o.jobs > MAX_JOBS) {
        return usage("--jobs is 1 to 16");
    }
    if (print) {
        for (uint64_t i = o.first; i < o.first + o.count; i++) {
            compare_case *c = compare_make(o.seed, i, o.features);
            printf("# seed %" PRIu64 " workload %" PRIu64 "\n", o.seed, i);
            compare_print(c, stdout);
            compare_free(c);
        }
        return 0;
    }
    return run_random(&o);
}
