/* test_metrics_files.c - what is written: JSON, request log, time series, flat names, own metrics.
 */
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "metrics/custom.h"
#include "metrics/request_log.h"
#include "metrics/results.h"
#include "metrics/timeseries.h"

static bool is(const aisim_json *json, const char *want)
{
    bool same =
        json->text.len == strlen(want) && memcmp(json->text.data, want, json->text.len) == 0;
    if (!same) {
        printf("    got  %.*s\n    want %s\n", (int)json->text.len, json->text.data, want);
    }
    return same;
}

static void numbers_are_the_shortest_that_read_back(void)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0.1, "0.1"},
                 {1.0 / 3, "0.3333333333333333"},
                 {-0.0, "0"},
                 {100, "100"},
                 {1e22, "1e+22"},
                 {5e-324, "4.94065645841247e-324"},
                 {0.1 + 0.2, "0.30000000000000004"},
                 {123456789012345678.0, "1.2345678901234568e+17"}};
    char text[48];
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        aisim_json_number(text, sizeof text, cases[i].value);
        CHECK_STR(text, cases[i].text);
        CHECK(strtod(text, NULL) == cases[i].value);
    }
}

/* report §5: finite numbers only, UTF-8, keys in the order of the calls. */
static void json_is_always_valid(void)
{
    aisim_json json = {0};
    aisim_json_begin(&json, '{');
    aisim_json_key(&json, "a\"\\\n\x01");
    aisim_json_double(&json, (double)NAN);
    aisim_json_key(&json, "b");
    aisim_json_begin(&json, '[');
    aisim_json_double(&json, (double)INFINITY);
    aisim_json_int(&json, INT64_MIN);
    aisim_json_uint(&json, UINT64_MAX);
    aisim_json_bool(&json, true);
    aisim_json_text(&json, NULL);
    aisim_json_end(&json, ']');
    aisim_json_key(&json, "c");
    aisim_json_text(&json, "\xC3\xA9 \xC3 \xED\xA0\x80 \xF4\x90\x80\x80 \xF0\x9F\x98\x80 \xC0\xAF");
    aisim_json_key(&json, "d");
    aisim_json_begin(&json, '{');
    aisim_json_end(&json, '}');
    aisim_json_end(&json, '}');
    CHECK(is(&json, "{\"a\\\"\\\\\\n\\u0001\":null,\"b\":[null,-9223372036854775808,"
                    "18446744073709551615,true,null],\"c\":\"\xC3\xA9 \xEF\xBF\xBD "
                    "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD \xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
                    "\xEF\xBF\xBD \xF0\x9F\x98\x80 \xEF\xBF\xBD\xEF\xBF\xBD\",\"d\":{}}"));
    aisim_json_free(&json);
}

static void collect(void *context, const char *name, const aisim_result *leaf)
{
    aisim_json *json = context;
    (void)leaf;
    aisim_json_raw(json, name, (uint32_t)strlen(name));
    aisim_json_raw(json, ";", 1);
}

static void flat_names_leave_groups_out(void)
{
    aisim_results results;
    aisim_json json = {.indent = 2}, names = {0};
    aisim_results_init(&results);
    uint32_t totals = aisim_results_group(&results, 0, "totals");
    aisim_results_uint(&results, totals, "n", 3);
    uint32_t gauges = aisim_results_group(&results, totals, "gauges");
    uint32_t usage = aisim_results_object(&results, gauges, "kv_usage");
    aisim_results_number(&results, usage, "mean", 0.5);
    aisim_results_number(&results, usage, "p99.9", (double)NAN);
    uint32_t list = aisim_results_array(&results, 0, "list");
    aisim_results_text(&results, list, NULL, "x");
    aisim_results_flat(&results, 0, collect, &names);
    CHECK(is(&names, "n;kv_usage.mean;kv_usage.p99.9;"));
    CHECK(aisim_results_value(&results,
                              aisim_results_path(&results, totals, "gauges.kv_usage.mean")) == 0.5);
    CHECK(isnan(aisim_results_value(&results, aisim_results_path(&results, usage, "p99.9"))));
    aisim_results_json(&results, totals, &json);
    CHECK(is(&json, "{\n  \"n\": 3,\n  \"gauges\": {\n    \"kv_usage\": {\n      \"mean\": 0.5,\n"
                    "      \"p99.9\": null\n    }\n  }\n}"));
    aisim_json_free(&json);
    aisim_json_free(&names);
    aisim_results_free(&results);
}

/* ---- request log ----------------------------------------------------------------------------- */

static char folder[] = "/tmp/aisim-metrics-XXXXXX";

static void in_folder(char *out, size_t size, const char *name)
{
    snprintf(out, size, "%s/%s", folder, name);
}

static aisim_record record_of(uint32_t id, int64_t arrival_ns, const char *name)
{
    aisim_request request = {.id = id, .arrival_ns = arrival_ns, .dispatched_ns = -1};
    aisim_record record;
    aisim_record_fill(&record, &request, AISIM_OUTCOME_COMPLETED, arrival_ns + 5, 0);
    record.name = name;
    record.measured = true;
    return record;
}

/* Writes the records in the given order. @return the ids in the order of the file, as text. */
static void written_order(const aisim_record *records, uint32_t n, char *out, size_t size)
{
    char path[128], part[128], line[4096];
    aisim_error err = {0};
    aisim_request_log *log;
    in_folder(path, sizeof path, "requests.jsonl");
    in_folder(part, sizeof part, "requests.jsonl.part");
    out[0] = '\0';
    CHECK(aisim_request_log_open(path, &log, &err) == AISIM_OK);
    CHECK(access(part, F_OK) == 0 && access(path, F_OK) != 0);
    aisim_request_logs logs = {.measured = log};
    for (uint32_t i = 0; i < n; i++) {
        aisim_request_logs_sink(&logs, &records[i]);
    }
    CHECK(aisim_request_log_close(log, &err) == AISIM_OK);
    CHECK(access(part, F_OK) != 0);
    FILE *file = fopen(path, "rb");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char id[32] = "";
        CHECK(sscanf(line, "{\"request_id\":%31[^,],\"play_id\":null,", id) == 1);
        CHECK(line[strlen(line) - 2] == '}');
        snprintf(out + strlen(out), size - strlen(out), "%s ", id);
    }
    if (file != NULL) {
        fclose(file);
    }
    remove(path);
}

/* report §5: by request id when ids are authored, else by arrival, then id. */
static void the_log_is_sorted(void)
{
    char order[128];
    aisim_record numbers[] = {record_of(3, 70, NULL), record_of(2, 90, NULL),
                              record_of(1, 70, NULL), record_of(4, 10, NULL)};
    written_order(numbers, 4, order, sizeof order);
    CHECK_STR(order, "4 1 3 2 ");
    written_order(numbers, 2, order, sizeof order); /* in order already: only renamed */
    CHECK_STR(order, "3 2 ");
    aisim_record names[] = {record_of(1, 1, "b"), record_of(2, 2, "a"), record_of(3, 3, "c")};
    written_order(names, 3, order, sizeof order);
    CHECK_STR(order, "\"a\" \"b\" \"c\" ");
    written_order(names, 0, order, sizeof order);
    CHECK_STR(order, "");
}

static void a_log_that_cannot_be_written_says_so(void)
{
    char path[128];
    aisim_error err = {0};
    aisim_request_log *log = NULL;
    in_folder(path, sizeof path, "absent/requests.jsonl");
    CHECK(aisim_request_log_open(path, &log, &err) == AISIM_EIO && log == NULL);
    CHECK(strstr(err.text, "absent/requests.jsonl") != NULL);
    in_folder(path, sizeof path, "dropped.jsonl");
    CHECK(aisim_request_log_open(path, &log, &err) == AISIM_OK);
    aisim_request_log_discard(log);
    aisim_request_log_discard(NULL);
    CHECK(rmdir(folder) == 0); /* nothing was left behind */
}

/* ---- time series ----------------------------------------------------------------------------- */

static void rates_are_over_the_past_interval(void)
{
    const uint32_t workers[] = {0, 0, 1};
    aisim_timeseries *series = aisim_timeseries_new(workers, 3);
    aisim_observer observer = aisim_timeseries_observer(series);
    aisim_pass_facts facts = {.prefill_tokens = 500, .emitted = 10};
    aisim_event event = {.type = AISIM_EV_PASS_END, .rank = 1, .u.pass = &facts};
    aisim_timeseries_state state = {.running = 2, .kv_used = 7, .kv_total = 10};
    observer.fn(observer.context, &event);
    aisim_timeseries_sample(series, 500000000, 0, &state);
    aisim_timeseries_sample(series, 500000000, 0, &state); /* the same instant again */
    observer.fn(observer.context, &event);
    aisim_timeseries_sample(series, 2500000000, 0, &state);
    uint32_t size;
    const char *text = aisim_timeseries_text(series, &size);
    const char *rows = memchr(text, '\n', size);
    static const char want[] = "\n500,1,2,0,7,0,10,0,0,1000,20,0,0,0,0,0,,0,0,0\n"
                               "2500,1,2,0,7,0,10,0,0,250,5,0,0,0,0,0,,0,0,0\n";
    CHECK((uint32_t)(text + size - rows) == sizeof want - 1);
    CHECK(memcmp(rows, want, sizeof want - 1) == 0);
    aisim_timeseries_free(series);
}

/* ---- metrics of a scenario ------------------------------------------------------------------- */

static void labels_split_a_metric(void)
{
    aisim_error err = {0};
    aisim_custom *custom = aisim_custom_new(AISIM_PERCENTILE_LINEAR);
    aisim_metric *hist, *late, *all, *ratio, *gauge, *again, *series;
    aisim_metric_spec spec = {.kind = AISIM_METRIC_HIST, .name = "gap", .by = "class"};
    CHECK(aisim_custom_add(custom, &spec, &hist, &err) == AISIM_OK);
    CHECK(aisim_custom_add(custom, &spec, &again, NULL) == AISIM_EEXIST && again == NULL);
    for (int i = 0; i < 10; i++) {
        aisim_metric_add(hist, i % 2 == 0 ? "even" : "odd", i, &err);
    }
    CHECK_EQ(aisim_metric_cells(hist), 3);
    CHECK_STR(aisim_metric_label(hist, 1), "even");
    CHECK(aisim_digest_mean(aisim_metric_digest(hist, 0)) == 4.5);
    CHECK(aisim_digest_mean(aisim_metric_digest(hist, 2)) == 5);
    CHECK(aisim_metric_add(hist, NULL, (double)NAN, NULL) == AISIM_ERANGE);
    CHECK(aisim_metric_set(hist, NULL, 0, 1, NULL) == AISIM_EINVAL);

    aisim_custom_add(custom, &(aisim_metric_spec){.name = "late_n"}, &late, &err);
    aisim_custom_add(custom, &(aisim_metric_spec){.name = "all_n"}, &all, &err);
    spec = (aisim_metric_spec){
        .kind = AISIM_METRIC_RATIO, .name = "late", .num = "late_n", .den = "all_n"};
    aisim_custom_add(custom, &spec, &ratio, &err);
    double num, den;
    aisim_metric_add(late, NULL, 1, &err);
    aisim_metric_add(all, NULL, 4, &err);
    aisim_metric_merge(all, all, &err);
    aisim_metric_ratio(ratio, &num, &den);
    CHECK(num == 1 && den == 8);

    aisim_custom_add(custom, &(aisim_metric_spec){.kind = AISIM_METRIC_GAUGE, .name = "depth"},
                     &gauge, &err);
    aisim_metric_set(gauge, NULL, 0, 9, &err);
    aisim_custom_barrier(custom, 100);
    aisim_metric_set(gauge, NULL, 150, 1, &err);
    aisim_custom_end(custom, 200);
    aisim_gauge_stats stats;
    aisim_gauge_read(aisim_metric_gauge(gauge, 0), &stats);
    CHECK(stats.mean == 5 && stats.peak == 9);
    CHECK(aisim_metric_digest(hist, 0)->n == 0); /* reset at the barrier */

    aisim_custom_add(custom, &(aisim_metric_spec){.kind = AISIM_METRIC_SERIES, .name = "kv"},
                     &series, &err);
    aisim_metric_push(series, 1000, 0.5, &err);
    const int64_t *times;
    const double *values;
    CHECK_EQ(aisim_metric_points(series, &times, &values), 1);
    CHECK(times[0] == 1000 && values[0] == 0.5);
    CHECK(err.code == AISIM_OK);
    aisim_custom_free(custom);
}

/* report §8: bounded number of series. */
static void the_number_of_series_is_bounded(void)
{
    aisim_error err = {0};
    aisim_custom *custom = aisim_custom_new(AISIM_PERCENTILE_LINEAR);
    aisim_metric *counter;
    aisim_custom_add(custom, &(aisim_metric_spec){.name = "n"}, &counter, &err);
    char label[32];
    for (int i = 1; i < AISIM_CUSTOM_SERIES; i++) {
        snprintf(label, sizeof label, "l%d", i);
        aisim_metric_add(counter, label, 1, &err);
    }
    CHECK(err.code == AISIM_OK);
    CHECK(aisim_metric_add(counter, "one more", 1, &err) == AISIM_ELIMIT);
    CHECK(aisim_metric_add(counter, "l7", 1, NULL) == AISIM_OK);
    CHECK(aisim_metric_total(counter, 0) == AISIM_CUSTOM_SERIES);
    aisim_custom_free(custom);
}

int main(void)
{
    numbers_are_the_shortest_that_read_back();
    json_is_always_valid();
    flat_names_leave_groups_out();
    CHECK(mkdtemp(folder) != NULL);
    the_log_is_sorted();
    a_log_that_cannot_be_written_says_so();
    rates_are_over_the_past_interval();
    labels_split_a_metric();
    the_number_of_series_is_bounded();
    return check_done();
}
