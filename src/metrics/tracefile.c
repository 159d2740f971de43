/* tracefile.c - one JSON object per event, sorted at the end. */
#include "metrics/tracefile.h"

#include <stdlib.h>

static void begin(aisim_tracefile *events, aisim_tracefile_place place, const char *phase,
                  const char *name)
{
    aisim_json *json = &events->line;
    json->text.len = 0;
    json->filled = false;
    aisim_json_begin(json, '{');
    aisim_json_key(json, "ph");
    aisim_json_text(json, phase);
    aisim_json_key(json, "pid");
    aisim_json_uint(json, place.process);
    aisim_json_key(json, "tid");
    aisim_json_uint(json, place.thread);
    aisim_json_key(json, "name");
    aisim_json_text(json, name);
}

static void put_time(aisim_tracefile *events, const char *key, int64_t ns)
{
    aisim_json_key(&events->line, key);
    aisim_json_double(&events->line, (double)ns / 1e3);
}

static void put_args(aisim_tracefile *events, const aisim_tracefile_arg *args, uint32_t n)
{
    aisim_json *json = &events->line;
    if (n == 0) {
        return;
    }
    aisim_json_key(json, "args");
    aisim_json_begin(json, '{');
    for (uint32_t i = 0; i < n; i++) {
        aisim_json_key(json, args[i].key);
        if (args[i].text != NULL) {
            aisim_json_text(json, args[i].text);
        } else {
            aisim_json_double(json, args[i].number);
        }
    }
    aisim_json_end(json, '}');
}

static void end(aisim_tracefile *events, int64_t t_ns, int64_t span_ns)
{
    aisim_json_end(&events->line, '}');
    aisim_tracefile_entry entry = {
        t_ns, span_ns,
        aisim_spool_add(events->spool, events->line.text.data, events->line.text.len)};
    aisim_array_push(&events->index, entry);
}

/* Is there room, and does [begin, end] touch the window? */
static bool wanted(aisim_tracefile *events, int64_t begin_ns, int64_t end_ns)
{
    if (end_ns < events->from_ns || begin_ns >= events->until_ns) {
        return false;
    }
    if (events->index.len >= events->max_events) {
        events->lost++;
        return false;
    }
    return true;
}

void aisim_tracefile_span(aisim_tracefile *events, aisim_tracefile_place place, const char *name,
                          int64_t begin_ns, int64_t end_ns, const aisim_tracefile_arg *args,
                          uint32_t n)
{
    if (!wanted(events, begin_ns, end_ns)) {
        return;
    }
    begin(events, place, "X", name);
    put_time(events, "ts", begin_ns);
    put_time(events, "dur", end_ns - begin_ns);
    put_args(events, args, n);
    end(events, begin_ns, end_ns - begin_ns);
}

void aisim_tracefile_instant(aisim_tracefile *events, aisim_tracefile_place place, const char *name,
                             int64_t t_ns)
{
    if (!wanted(events, t_ns, t_ns)) {
        return;
    }
    begin(events, place, "i", name);
    put_time(events, "ts", t_ns);
    aisim_json_key(&events->line, "s");
    aisim_json_text(&events->line, place.process != 0  ? "p"
                                   : place.thread != 0 ? "t"
                                                       : "g");
    end(events, t_ns, 0);
}

void aisim_tracefile_counter(aisim_tracefile *events, uint32_t process, const char *name,
                             int64_t t_ns, const aisim_tracefile_arg *args, uint32_t n)
{
    if (!wanted(events, t_ns, t_ns)) {
        return;
    }
    begin(events, (aisim_tracefile_place){process, 0}, "C", name);
    put_time(events, "ts", t_ns);
    put_args(events, args, n);
    end(events, t_ns, 0);
}

/* Viewers bind each end to the span around it. */
static void flow_end(aisim_tracefile *events, const char *phase, const char *name, uint32_t id,
                     aisim_tracefile_place place, int64_t t_ns)
{
    begin(events, place, phase, name);
    aisim_json_key(&events->line, "cat");
    aisim_json_text(&events->line, "edge");
    aisim_json_key(&events->line, "id");
    aisim_json_uint(&events->line, id);
    if (phase[0] == 'f') {
        aisim_json_key(&events->line, "bp");
        aisim_json_text(&events->line, "e");
    }
    put_time(events, "ts", t_ns);
    end(events, t_ns, -1); /* behind the spans that begin there */
}

void aisim_tracefile_flow(aisim_tracefile *events, const char *name, uint32_t id,
                          aisim_tracefile_place from, int64_t from_ns, aisim_tracefile_place to,
                          int64_t to_ns)
{
    bool both = from_ns >= events->from_ns && to_ns < events->until_ns;
    if (both && events->index.len + 1 >= events->max_events) { /* room for one is none */
        events->lost += 2;
    } else if (both) {
        flow_end(events, "s", name, id, from, from_ns);
        flow_end(events, "f", name, id, to, to_ns);
    }
}

/* A point outside of the window may be on a span that is not drawn. */
static bool arrow_wanted(aisim_tracefile *events, const aisim_tracefile_point *points, uint32_t n)
{
    if (points[0].t_ns < events->from_ns || points[n - 1].t_ns >= events->until_ns) {
        return false;
    }
    if (events->index.len + n > events->max_events) {
        events->lost += n;
        return false;
    }
    return true;
}

bool aisim_tracefile_arrow(aisim_tracefile *events, const char *name, uint64_t id,
                           const aisim_tracefile_point *points, uint32_t n)
{
    if (!arrow_wanted(events, points, n)) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        begin(events, points[i].place, i == 0 ? "s" : i + 1 < n ? "t" : "f", name);
        aisim_json_key(&events->line, "cat");
        aisim_json_text(&events->line, "request");
        aisim_json_key(&events->line, "id");
        aisim_json_uint(&events->line, id);
        if (i + 1 == n) { /* its end too binds to the span around it, not to the next one */
            aisim_json_key(&events->line, "bp");
            aisim_json_text(&events->line, "e");
        }
        put_time(events, "ts", points[i].t_ns);
        end(events, points[i].t_ns, 0);
    }
    return true;
}

void aisim_tracefile_name(aisim_tracefile *events, aisim_tracefile_place place, const char *kind,
                          const char *name)
{
    const aisim_tracefile_arg arg = {"name", 0, name};
    begin(events, place, "M", kind);
    put_args(events, &arg, 1);
    end(events, INT64_MIN, 0);
}

/* The offset in the spool says which came first. What lies around other spans of its thread ends
 * with the last of them at the earliest, and comes after it. */
static int by_time(const void *left, const void *right)
{
    const aisim_tracefile_entry *a = left, *b = right;
    if (a->t_ns != b->t_ns) {
        return a->t_ns < b->t_ns ? -1 : 1;
    }
    if (a->span_ns != b->span_ns) {
        return a->span_ns > b->span_ns ? -1 : 1;
    }
    int order = (a->line.offset > b->line.offset) - (a->line.offset < b->line.offset);
    return a->span_ns > 0 ? -order : order;
}

static void free_parts(aisim_tracefile *events)
{
    aisim_array_free(&events->index);
    aisim_json_free(&events->line);
}

aisim_status aisim_tracefile_close(aisim_tracefile *events, aisim_error *err)
{
    static const aisim_spool_frame frame = {"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n",
                                            ",\n", "\n]}\n"};
    AISIM_ARRAY(aisim_spool_line) lines = {0};
    if (events->index.len > 0) {
        qsort(events->index.data, events->index.len, sizeof *events->index.data, by_time);
    }
    for (uint32_t i = 0; i < events->index.len; i++) {
        aisim_array_push(&lines, events->index.data[i].line);
    }
    aisim_status status = aisim_spool_close(events->spool, lines.data, lines.len, &frame, err);
    aisim_array_free(&lines);
    free_parts(events);
    return status;
}

void aisim_tracefile_discard(aisim_tracefile *events)
{
    aisim_spool_discard(events->spool);
    free_parts(events);
}
