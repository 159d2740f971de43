/* scenarios.c - runs mutated scenario files: nothing may crash, hang, leak or break the program.
 *
 *   aisim_scenarios [--count N] [--from I] [--seed S] [--keep DIR] FILE.lua ...
 *
 * Case i of a seed is always the same text: one of the files with a few bytes or tokens changed. It
 * is run as `aisim run` would, under the limits of a script of somebody else, and may end with any
 * status but 70 (internal error). One process runs case after case, each in a Lua state of its own;
 * where the program ends the process by design (memory gone, a call that nothing can stop) the
 * parent starts the next one. A run that goes on for long is interrupted as by a user; one that goes
 * on even then is a hang. With an address sanitizer leaks are looked for as well.
 * Findings are written to DIR (default: the current folder) as finding-I.lua. */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

#include "base/rng.h"
#include "cli/program.h"

enum {
    MAX_TEXT = 1 << 16,
    MAX_FILES = 64,
    MAX_TOKENS = 1 << 15,
    CPU_MS = 300,    /* of one case, then it is interrupted; asked again after as much */
#if defined(__SANITIZE_ADDRESS__)
    HANG_AFTER = 200, /* times that: slower, and no memory limit ends what makes a million plays */
#else
    HANG_AFTER = 20, /* times that */
#endif
    LEAK_CHECK = 50, /* cases between two */
    STATUSES = 256
};

typedef struct token {
    const char *text;
    size_t length;
} token;

/* What parent and children share. */
typedef struct progress {
    volatile uint32_t current; /* the case that runs */
    volatile uint32_t ended[STATUSES];
    volatile uint32_t findings;
} progress;

static char *files[MAX_FILES];
static size_t lengths[MAX_FILES];
static int n_files;
static token tokens[MAX_TOKENS];
static size_t n_tokens;
static uint64_t seed = 1;
static const char *keep = ".";
static progress *shared;
static char errors_path[64];
static char text[MAX_TEXT];
static size_t length;
static char scratch[MAX_TEXT];

/* ---- the files and their tokens -------------------------------------------------------------- */

static bool is_word(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.';
}

/* Length of the token at `at`: a word or number, a string, a run of blanks, one other byte. */
static size_t token_length(const char *at, const char *end)
{
    const char *p = at;
    if (is_word((unsigned char)*p)) {
        while (p < end && is_word((unsigned char)*p)) {
            p++;
        }
    } else if (*p == '"') {
        for (p++; p < end && *p != '"' && *p != '\n'; p++) {
        }
        p += p < end;
    } else if (*p == ' ' || *p == '\n') {
        while (p < end && (*p == ' ' || *p == '\n')) {
            p++;
        }
    } else {
        p++;
    }
    return (size_t)(p - at);
}

static void add_tokens(const char *at, const char *end)
{
    while (at < end && n_tokens < MAX_TOKENS) {
        size_t n = token_length(at, end);
        if (*at != ' ' && *at != '\n') {
            tokens[n_tokens++] = (token){at, n};
        }
        at += n;
    }
}

static void read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || n_files == MAX_FILES) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(2);
    }
    files[n_files] = malloc(MAX_TEXT);
    lengths[n_files] = fread(files[n_files], 1, MAX_TEXT / 2, file);
    fclose(file);
    add_tokens(files[n_files], files[n_files] + lengths[n_files]);
    n_files++;
}

/* ---- mutations ------------------------------------------------------------------------------- */

static const char *const nasty[] = {
    "nil", "0", "-1", "1e308", "(0/0)", "math.huge", "-math.huge", "9007199254740993", "1e-300",
    "math.mininteger", "2147483648", "4294967296", "65536", "true", "{}", "\"\"", "\"\\0\"", "print",
    "function() end", "function(...) return ... end", "function() error(nil) end",
    "function() error({}) end", "function() while true do end end", "coroutine.yield()",
    "coroutine.wrap(function() end)", "setmetatable({}, {__index = error})",
    "setmetatable({}, {__tostring = error})", "(\"x\"):rep(1e8)", "sim", "p", "S", "aisim", "sim:run()",
    "sim:stop()", "sim:close()", "sim:submit{prompt_tokens = 1e9, output_tokens = 1e9}", "1 // 0",
    "aisim.new{}", "aisim.dist.const(-1)", "select(-1)", "string.rep", "pcall(error)", "goto x",
    "_ENV", "::x::", "\"k\"..1", "sim:at(0, function() sim:run() end)", "error(setmetatable({}, {}))"};

static uint32_t below(aisim_rng *rng, size_t n)
{
    return n == 0 ? 0 : (uint32_t)(aisim_rng_unit(rng) * (double)n);
}

/* Replaces [from, to) by n bytes, unless the text grows too long. */
static void replace(size_t from, size_t to, const char *with, size_t n)
{
    if (length - (to - from) + n >= MAX_TEXT / 2) {
        return;
    }
    memmove(text + from + n, text + to, length - to);
    memcpy(text + from, with, n);
    length = length - (to - from) + n;
}

static void random_token(aisim_rng *rng, size_t *from, size_t *to)
{
    size_t at = 0, count = 0;
    *from = *to = 0;
    for (; at < length; count++) { /* every token is equally likely */
        size_t n = token_length(text + at, text + length);
        if (below(rng, count + 1) == 0) {
            *from = at;
            *to = at + n;
        }
        at += n;
    }
}

static token any_token(aisim_rng *rng)
{
    if (below(rng, 2) == 0) {
        const char *word = nasty[below(rng, sizeof nasty / sizeof *nasty)];
        return (token){word, strlen(word)};
    }
    return tokens[below(rng, n_tokens)];
}

static void mutate_bytes(aisim_rng *rng)
{
    size_t at = below(rng, length);
    size_t n = 1 + below(rng, 12);
    size_t to = at + n < length ? at + n : length;
    char byte = (char)below(rng, 256);
    switch (below(rng, 5)) {
    case 0:
        if (length > 0) {
            text[at] = byte;
        }
        break;
    case 1:
        replace(at, to, "", 0);
        break;
    case 2:
        replace(at, at, &byte, 1);
        break;
    case 3:
        memcpy(scratch, text + at, to - at);
        replace(at, at, scratch, to - at);
        break;
    default:
        if (below(rng, 4) == 0) {
            length = at; /* cut off */
        } else if (length > 0) {
            text[at] = (char)(text[at] ^ (1 << below(rng, 7)));
        }
    }
}

static void mutate_tokens(aisim_rng *rng)
{
    size_t from, to, other_from, other_to;
    random_token(rng, &from, &to);
    token other = any_token(rng);
    switch (below(rng, 6)) {
    case 0:
        replace(from, to, "", 0);
        break;
    case 1:
        replace(from, from, other.text, other.length);
        break;
    case 2: /* a token of this text, somewhere else */
        random_token(rng, &other_from, &other_to);
        memcpy(scratch, text + other_from, other_to - other_from);
        replace(from, to, scratch, other_to - other_from);
        break;
    case 3: /* twice */
        memcpy(scratch, text + from, to - from);
        replace(from, from, scratch, to - from);
        break;
    default:
        replace(from, to, other.text, other.length);
    }
}

static const char *const numbers[] = {
    "0", "1", "2", "3", "4", "5", "7", "8", "10", "16", "17", "31", "64", "100", "128", "250", "999",
    "1000", "4096", "10000", "65536", "200000", "1e6", "0.5", "0.1", "1.5", "12.5", "1e-3", "-1",
    "4294967296", "9007199254740993", "1e300", "(0/0)", "math.huge", "nil"};

/* A number becomes another one: most of these still run. */
static void mutate_value(aisim_rng *rng)
{
    size_t chosen = 0, chosen_length = 0, count = 0;
    for (size_t at = 0; at < length;) {
        size_t n = token_length(text + at, text + length);
        bool is_value = text[at] >= '0' && text[at] <= '9';
        if (is_value && below(rng, ++count) == 0) {
            chosen = at;
            chosen_length = n;
        }
        at += n;
    }
    const char *with = numbers[below(rng, sizeof numbers / sizeof *numbers)];
    replace(chosen, chosen + chosen_length, with, strlen(with));
}

/* Case i: the text of a file with one to four changes. */
static void make_case(uint32_t i)
{
    aisim_rng rng = aisim_rng_named(seed ^ aisim_mix64(i), "scenario");
    int file = (int)below(&rng, (size_t)n_files);
    length = lengths[file];
    memcpy(text, files[file], length);
    bool values = below(&rng, 2) == 0;
    for (uint32_t n = 1 + below(&rng, 4); n > 0; n--) {
        if (values) {
            mutate_value(&rng);
        } else if (below(&rng, 3) == 0) {
            mutate_bytes(&rng);
        } else {
            mutate_tokens(&rng);
        }
    }
}

/* ---- running --------------------------------------------------------------------------------- */

static void write_case(const char *path)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(text, 1, length, file) != length || fclose(file) != 0) {
        fprintf(stderr, "cannot write %s\n", path);
        _exit(2);
    }
}

/* The end of what the case has said on standard error. */
static void show_errors(void)
{
    char tail[1500];
    FILE *file = fopen(errors_path, "rb");
    if (file == NULL) {
        return;
    }
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    fseek(file, size > (long)sizeof tail ? size - (long)sizeof tail : 0, SEEK_SET);
    size_t n = fread(tail, 1, sizeof tail, file);
    fclose(file);
    fwrite(tail, 1, n, stdout);
}

static void finding(uint32_t i, const char *what)
{
    char path[512];
    snprintf(path, sizeof path, "%s/finding-%u.lua", keep, i);
    make_case(i);
    write_case(path);
    shared->findings++;
    printf("case %u: %s (%s)\n", i, what, path);
    show_errors();
    fflush(stdout);
}

static timer_t cpu_timer;
static volatile sig_atomic_t alarms;

static void on_cpu(int number)
{
    (void)number;
    if (++alarms > HANG_AFTER) {
        const char *hang = "does not end\n";
        if (write(STDERR_FILENO, hang, strlen(hang)) > 0) {
            abort();
        }
        abort();
    }
    if (alarms <= 2) { /* as a user would; the third would kill */
        raise(SIGINT);
    }
}

static void watch_cpu(int ms)
{
    alarms = 0;
    struct timespec period = {ms / 1000, ms % 1000 * 1000000L};
    struct itimerspec spec = {.it_interval = period, .it_value = period};
    timer_settime(cpu_timer, 0, &spec, NULL);
}

static int run_case(const char *path)
{
    char *argv[] = {"aisim", "run", (char *)path, "--sandbox", "--max-instructions", "3000000",
                    "--memory-limit", "96MiB", "--hook-timeout", "20", NULL};
    lua_State *L = aisim_cli_open();
    if (L == NULL) {
        return 3;
    }
    watch_cpu(CPU_MS);
    int status = aisim_cli_main(L, (int)(sizeof argv / sizeof *argv) - 1, argv);
    aisim_cli_close(L);
    watch_cpu(0);
    return status;
}

/* Runs cases until the last one, or until the program ends the process. */
static void child(uint32_t from, uint32_t end, const char *path)
{
    struct sigaction action = {.sa_handler = on_cpu, .sa_flags = SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    sigaction(SIGUSR1, &action, NULL);
    timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &cpu_timer);
    int out = dup(STDOUT_FILENO), null = open("/dev/null", O_RDWR);
    for (uint32_t i = from; i < end; i++) {
        shared->current = i;
        make_case(i);
        write_case(path);
        fflush(stdout);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDIN_FILENO);
        int err = dup(STDERR_FILENO);
        int errors = open(errors_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(errors, STDERR_FILENO);
        close(errors);
        int status = run_case(path);
        fflush(stdout);
        dup2(out, STDOUT_FILENO);
        dup2(err, STDERR_FILENO);
        close(err);
        shared->ended[status & (STATUSES - 1)]++;
        if (status == 70) {
            finding(i, "internal error");
        }
#if defined(__SANITIZE_ADDRESS__)
        if ((i % LEAK_CHECK == LEAK_CHECK - 1 || i + 1 == end) &&
            __lsan_do_recoverable_leak_check() != 0) {
            finding(i, "leak in this case or those before it");
        }
#endif
    }
    shared->current = end;
    _exit(0);
}

static void report(uint32_t from, uint32_t end, uint32_t processes)
{
    printf("%u cases of seed %llu in %u processes; by exit status:", end - from,
           (unsigned long long)seed, processes);
    for (int status = 0; status < STATUSES; status++) {
        if (shared->ended[status] > 0) {
            printf(" %d: %u", status, shared->ended[status]);
        }
    }
    printf("\n%u passed, %u failed\n", end - from - shared->findings, shared->findings);
}

int main(int argc, char **argv)
{
    uint32_t count = 200, from = 0, processes = 0;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--count") == 0) {
            count = (uint32_t)strtoul(value, NULL, 10), i++;
        } else if (strcmp(argv[i], "--from") == 0) {
            from = (uint32_t)strtoul(value, NULL, 10), i++;
        } else if (strcmp(argv[i], "--seed") == 0) {
            seed = strtoull(value, NULL, 10), i++;
        } else if (strcmp(argv[i], "--keep") == 0) {
            keep = value, i++;
        } else {
            read_file(argv[i]);
        }
    }
    char folder[] = "/tmp/aisim-scenarios-XXXXXX";
    char path[64];
    if (n_files == 0 || mkdtemp(folder) == NULL) {
        fputs("usage: aisim_scenarios [--count N] [--from I] [--seed S] [--keep DIR] FILE ...\n", stderr);
        return 2;
    }
    snprintf(path, sizeof path, "%s/a.lua", folder);
    snprintf(errors_path, sizeof errors_path, "%s/errors", folder);
    int memory = open("/dev/zero", O_RDWR);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    uint32_t end = from + count;
    for (uint32_t next = from; next < end; next = shared->current + 1) {
        fflush(stdout);
        processes++;
        pid_t pid = fork();
        if (pid == 0) {
            child(next, end, path);
        }
        int status;
        waitpid(pid, &status, 0);
        if (WIFSIGNALED(status)) {
            finding(shared->current, WTERMSIG(status) == SIGABRT ? "hang or abort" : "crash");
        } else if (WEXITSTATUS(status) == 3) {
            shared->ended[3]++;
        } else if (WEXITSTATUS(status) != 0) {
            finding(shared->current, "the process ended");
        }
    }
    report(from, end, processes);
    remove(path);
    remove(errors_path);
    rmdir(folder);
    return shared->findings > 0;
}
