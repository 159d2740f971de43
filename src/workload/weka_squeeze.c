/* weka_squeeze.c - one walk over the text; only keys outside of texts count. */
#include "workload/weka_squeeze.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum { SMALL = 4096, MAX_DIGITS = 18 };

typedef struct walk {
    const char *at, *end;
    char *out; /* where the next byte goes: what is left to read always has room behind it */
} walk;

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n')) {
        at++;
    }
    return at;
}

/* A plain number. @return NULL when there is none */
static const char *read_number(const char *at, const char *end, uint64_t *out)
{
    const char *first = at;
    *out = 0;
    while (at < end && *at >= '0' && *at <= '9' && at - first < MAX_DIGITS) {
        *out = 10 * *out + (uint64_t)(*at - '0');
        at++;
    }
    bool leading_zero = at - first > 1 && *first == '0';
    return at == first || leading_zero ? NULL : at;
}

/* Writes the list that begins behind '[' as runs. @return behind ']', or NULL: not plain, too long
 */
static const char *write_runs(const char *at, const char *end, char *out, const char *limit,
                              char **out_end)
{
    uint64_t first = 0;
    uint64_t count = 0;
    bool more = true;
    while (more) {
        uint64_t id;
        at = read_number(skip_space(at, end), end, &id);
        if (at == NULL) {
            return NULL;
        }
        at = skip_space(at, end);
        if (at == end || (*at != ',' && *at != ']')) {
            return NULL;
        }
        more = *at++ == ',';
        bool joins = count > 0 && id == first + count;
        if (count > 0 && !joins) {
            int n = snprintf(out, (size_t)(limit - out), "%" PRIu64 ",%" PRIu64 ",", first, count);
            if (n < 0 || n >= limit - out) {
                return NULL;
            }
            out += n;
        }
        first = joins ? first : id;
        count = joins ? count + 1 : 1;
    }
    int n = snprintf(out, (size_t)(limit - out), "%" PRIu64 ",%" PRIu64 "]", first, count);
    *out_end = out + n;
    return n < 0 || n >= limit - out ? NULL : at;
}

static void copy(walk *w, const char *to)
{
    size_t n = (size_t)(to - w->at);
    memcpy(w->out, w->at, n);
    w->out += n;
    w->at = to;
}

/* Behind the closing quote of the text that begins behind `at`. */
static const char *end_of_text(const char *at, const char *end)
{
    while (at < end && *at != '"') {
        at += *at == '\\' && at + 1 < end ? 2 : 1;
    }
    return at < end ? at + 1 : end;
}

bool aisim_weka_squeeze(const char *text, size_t size, char **out, size_t *out_size)
{
    static const char key[] = "\"hash_ids\"";
    static const char runs[] = "\"hash_runs\":[";
    const size_t key_size = sizeof key - 1;
    if (size < SMALL) {
        return false;
    }
    char *memory = aisim_alloc(size + 64, 1);
    walk w = {.at = text, .end = text + size, .out = memory};
    while (w.at < w.end) {
        const char *quote = memchr(w.at, '"', (size_t)(w.end - w.at));
        if (quote == NULL) {
            copy(&w, w.end);
            break;
        }
        const char *behind = end_of_text(quote + 1, w.end);
        size_t n = (size_t)(behind - quote);
        if (n == sizeof runs - 3 &&
            memcmp(quote, runs, n) == 0) { /* both kinds: said by the reader */
            aisim_free(memory);
            return false;
        }
        bool found = n == key_size && memcmp(quote, key, key_size) == 0;
        const char *list = found ? skip_space(behind, w.end) : NULL;
        list = list != NULL && list < w.end && *list == ':' ? skip_space(list + 1, w.end) : NULL;
        if (list == NULL || list == w.end || *list != '[') {
            copy(&w, behind);
            continue;
        }
        copy(&w, quote);
        char *to = w.out;
        memcpy(to, runs, sizeof runs - 1);
        char *to_end = NULL;
        const char *next =
            write_runs(list + 1, w.end, to + sizeof runs - 1, memory + size + 64 - 1, &to_end);
        size_t left = next == NULL ? 0 : (size_t)(w.end - next);
        if (next == NULL || to_end + left > memory + size + 32) { /* does not get shorter */
            copy(&w, behind);
            continue;
        }
        w.out = to_end;
        w.at = next;
    }
    *out = memory;
    *out_size = (size_t)(w.out - memory);
    return true;
}
