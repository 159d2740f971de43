/* test_config_value.c - numbers, value trees, YAML reader and writer (spec/config.md). */
#include <locale.h>
#include <stdlib.h>

#include "check.h"
#include "config/emit.h"
#include "config/near.h"
#include "config/number.h"
#include "config/yaml.h"

static aisim_value *read_text(const char *text, aisim_error *err)
{
    aisim_value *value = NULL;
    aisim_source *source = aisim_source_new(AISIM_ORIGIN_FILE, "x.yaml");
    aisim_yaml_text(text, strlen(text), source, &value, err);
    aisim_source_release(source);
    return value;
}

static void check_error(const char *text, const char *want, int line)
{
    aisim_error err = {0};
    char got[2048];
    aisim_value *value = read_text(text, &err);
    aisim_error_format(&err, got, sizeof got);
    check_str(value == NULL ? got : "no error", want, text, __FILE__, line);
    aisim_value_free(value);
}
#define CHECK_ERROR(text, want) check_error((text), (want), __LINE__)

static void scalars_follow_yaml_1_2(void)
{
    static const struct {
        const char *text;
        aisim_value_kind kind;
        const char *shown;
    } rows[] = {
        {"true", AISIM_VALUE_BOOL, "true"},
        {"False", AISIM_VALUE_BOOL, "false"},
        {"yes", AISIM_VALUE_TEXT, "'yes'"},
        {"off", AISIM_VALUE_TEXT, "'off'"},
        {"null", AISIM_VALUE_NULL, "null"},
        {"~", AISIM_VALUE_NULL, "null"},
        {"12", AISIM_VALUE_INTEGER, "12"},
        {"-12", AISIM_VALUE_INTEGER, "-12"},
        {"+12", AISIM_VALUE_INTEGER, "12"},
        {"012", AISIM_VALUE_INTEGER, "12"},
        {"0x1F", AISIM_VALUE_INTEGER, "31"},
        {"0o17", AISIM_VALUE_INTEGER, "15"},
        {"9223372036854775807", AISIM_VALUE_INTEGER, "9223372036854775807"},
        {"-9223372036854775808", AISIM_VALUE_INTEGER, "-9223372036854775808"},
        {"9223372036854775808", AISIM_VALUE_INTEGER, "9223372036854775808"},
        {"18446744073709551615", AISIM_VALUE_INTEGER, "18446744073709551615"},
        {"18446744073709551616", AISIM_VALUE_REAL, "1.8446744073709552e+19"},
        {"1.5", AISIM_VALUE_REAL, "1.5"},
        {"1e6", AISIM_VALUE_REAL, "1000000"},
        {".5", AISIM_VALUE_REAL, "0.5"},
        {"5.", AISIM_VALUE_REAL, "5"},
        {"-.inf", AISIM_VALUE_REAL, "-.inf"},
        {".NaN", AISIM_VALUE_REAL, ".nan"},
        {"1_000", AISIM_VALUE_TEXT, "'1_000'"},
        {"12:30", AISIM_VALUE_TEXT, "'12:30'"},
        {"1.2.3", AISIM_VALUE_TEXT, "'1.2.3'"},
        {"0.24.0", AISIM_VALUE_TEXT, "'0.24.0'"},
        {"1e", AISIM_VALUE_TEXT, "'1e'"},
        {"-", AISIM_VALUE_TEXT, "'-'"},
        {".", AISIM_VALUE_TEXT, "'.'"},
        {"\"12\"", AISIM_VALUE_TEXT, "'12'"},
        {"'true'", AISIM_VALUE_TEXT, "'true'"},
        {"inf", AISIM_VALUE_TEXT, "'inf'"},
        {"64GiB", AISIM_VALUE_TEXT, "'64GiB'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[80], shown[80];
        snprintf(text, sizeof text, "[%s]", rows[i].text);
        aisim_value *list = read_text(text, NULL);
        CHECK(list != NULL && aisim_value_len(list) == 1);
        aisim_value *value = aisim_value_at(list, 0);
        CHECK_EQ(aisim_value_kind_of(value), rows[i].kind);
        CHECK_STR(aisim_value_show(value, shown, sizeof shown), rows[i].shown);
        aisim_value_free(list);
    }
}

static void units_are_read_for_people(void)
{
    double x = 0;
    CHECK(aisim_number_scan_unit("64GiB", AISIM_UNIT_BYTES, &x) && x == 68719476736.0);
    CHECK(aisim_number_scan_unit("80GB", AISIM_UNIT_BYTES, &x) && x == 80e9);
    CHECK(aisim_number_scan_unit("80 GB", AISIM_UNIT_BYTES, &x) && x == 80e9);
    CHECK(aisim_number_scan_unit("1.5GiB", AISIM_UNIT_BYTES, &x) && x == 1610612736.0);
    CHECK(aisim_number_scan_unit("10k", AISIM_UNIT_COUNT, &x) && x == 10000);
    CHECK(aisim_number_scan_unit("128Ki", AISIM_UNIT_COUNT, &x) && x == 131072);
    CHECK(aisim_number_scan_unit("250ms", AISIM_UNIT_MILLISECONDS, &x) && x == 250);
    CHECK(aisim_number_scan_unit("2m", AISIM_UNIT_MILLISECONDS, &x) && x == 120000);
    CHECK(aisim_number_scan_unit("2min", AISIM_UNIT_SECONDS, &x) && x == 120);
    CHECK(aisim_number_scan_unit("250ms", AISIM_UNIT_SECONDS, &x) && x == 0.25);
    CHECK(aisim_number_scan_unit("-1s", AISIM_UNIT_SECONDS, &x) && x == -1);
    CHECK(!aisim_number_scan_unit("64", AISIM_UNIT_BYTES, &x)); /* no unit: not for people */
    CHECK(!aisim_number_scan_unit("64Gb", AISIM_UNIT_BYTES, &x));
    CHECK(!aisim_number_scan_unit("10kB", AISIM_UNIT_COUNT, &x));
    CHECK(!aisim_number_scan_unit("GiB", AISIM_UNIT_BYTES, &x));
    CHECK(!aisim_number_scan_unit("1  GiB", AISIM_UNIT_BYTES, &x));
}

static void doubles_are_shortest_and_read_back(void)
{
    static const double xs[] = {
        0.0,    1.0,      0.1,    1.0 / 3.0, 1e22, 5e-324, 1.7976931348623157e308,
        120000, 0.399999, 2.5e-7, 1e15,      1e14, -2.0,   123456789.0};
    char text[AISIM_NUMBER_SIZE];
    for (size_t i = 0; i < sizeof xs / sizeof *xs; i++) {
        aisim_number back = aisim_number_scan(aisim_number_show(xs[i], text));
        CHECK_EQ(back.kind, AISIM_NUMBER_REAL);
        CHECK(back.real == xs[i]);
    }
    CHECK_STR(aisim_number_show(0.1, text), "0.1");
    CHECK_STR(aisim_number_show(2.0, text), "2.0");
    CHECK_STR(aisim_number_show(120000.0, text), "120000.0");
    CHECK_STR(aisim_number_show_plain(2.0, text), "2");
    CHECK_STR(aisim_number_show(1e22, text), "1e+22");
}

static void the_locale_changes_no_number(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (setlocale(LC_NUMERIC, names[i]) != NULL) {
            char text[AISIM_NUMBER_SIZE];
            CHECK_STR(aisim_number_show(0.25, text), "0.25");
            CHECK(aisim_number_scan("0.25").real == 0.25);
            CHECK_EQ(aisim_number_scan("0,25").kind, AISIM_NUMBER_NONE);
            setlocale(LC_NUMERIC, "C");
            return;
        }
    }
    printf("skipped: no locale with a decimal comma on this machine\n");
}

static void positions_are_kept(void)
{
    aisim_value *tree = read_text("engine:\n  model: a\n  list: [1,\n    two]\n", NULL);
    aisim_value *engine = aisim_value_get(tree, "engine");
    CHECK_EQ(aisim_value_key_mark(tree, 0).line, 1);
    CHECK_EQ(aisim_value_key_mark(engine, 0).line, 2);
    CHECK_EQ(aisim_value_key_mark(engine, 0).column, 3);
    CHECK_EQ(aisim_value_mark(aisim_value_get(engine, "model")).column, 10);
    aisim_value *list = aisim_value_find(tree, "engine.list");
    CHECK_EQ(aisim_value_mark(aisim_value_at(list, 1)).line, 4);
    CHECK_EQ(aisim_value_mark(aisim_value_at(list, 1)).column, 5);
    CHECK(aisim_value_find(tree, "engine.model.x") == NULL);
    CHECK(aisim_value_find(tree, "engine.none") == NULL);
    CHECK_EQ(aisim_value_origin(list), AISIM_ORIGIN_FILE);
    aisim_value_free(tree);
}

static void aliases_are_copies(void)
{
    aisim_value *tree = read_text("a: &w {x: 1, y: [2, 3]}\nb: *w\n", NULL);
    aisim_value *a = aisim_value_get(tree, "a"), *b = aisim_value_get(tree, "b");
    CHECK(a != b && aisim_value_equal(a, b));
    aisim_value_set_integer(aisim_value_get(b, "x"), 7);
    CHECK_EQ(aisim_value_as_integer(aisim_value_get(a, "x")), 1);
    aisim_value_free(tree);
}

static void malformed_text_is_refused_with_its_place(void)
{
    CHECK_ERROR("a: 1\nb: 2\na: 3\n", "x.yaml:3:1: duplicate key 'a' (first in line 1)");
    CHECK_ERROR("a: 1\n---\nb: 2\n",
                "x.yaml:2:1: a second document starts here; one per file expected");
    CHECK_ERROR("a: !!int 3\n", "x.yaml:1:4: tag 'tag:yaml.org,2002:int' is not supported; quote a "
                                "text, leave numbers plain");
    CHECK_ERROR("a: &x {b: 1}\nc:\n  <<: *x\n",
                "x.yaml:3:3: merge keys (<<) are not supported; write the keys out, or use an "
                "alias for the whole map");
    CHECK_ERROR("a: *x\n", "x.yaml:1:4: unknown anchor '*x'");
    CHECK_ERROR("a: &x [1, *x]\n", "x.yaml:1:11: '*x' is used inside its own anchor");
    CHECK_ERROR("? [1, 2]\n: 3\n", "x.yaml:1:3: a key must be a plain name");
    CHECK_ERROR("'': 3\n", "x.yaml:1:1: a key is missing before ':'");
    CHECK_ERROR("a:\n\tb: 1\n", "x.yaml:2:1: tab in the indentation; use spaces");
    CHECK_ERROR("a: b: c\n", "x.yaml:1:5: malformed YAML: ':' is not allowed here; check the "
                             "indentation of this line and the one before, or quote the text");
    CHECK_ERROR("a: {b: 1\nc: 2\n", "x.yaml:2:2: malformed YAML: ',' or '}' expected in this {…}");
    CHECK_ERROR("a: [1, 2\n", "x.yaml:2:1: malformed YAML: ',' or ']' expected in this […]");
    CHECK_ERROR("a: \"x\\0y\"\n", "x.yaml:1:4: text with a zero byte");
    CHECK_ERROR("a: 1\nb: \xff\n",
                "x.yaml:2:4: not valid UTF-8 text (invalid leading UTF-8 octet)");
    CHECK_ERROR("a: 'open\n", "x.yaml:2:1: malformed YAML: the text ends inside a quoted string");
}

static void limits_hold(void)
{
    char deep[201];
    memset(deep, '[', 100);
    memset(deep + 100, ']', 100);
    deep[200] = '\0';
    CHECK_ERROR(deep, "x.yaml:1:64: nested deeper than 64 levels");
    aisim_text bomb = {0}; /* every line copies the one before ten times */
    aisim_text_add(&bomb, "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n");
    for (int i = 1; i < 9; i++) {
        aisim_text_format(&bomb, "a%d: &a%d [*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d]\n",
                          i, i, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1,
                          i - 1);
    }
    CHECK_ERROR(aisim_text_get(&bomb), "x.yaml:6:38: more than 1000000 values");
    aisim_text_free(&bomb);
    aisim_error err = {0};
    aisim_value *value = NULL;
    CHECK_EQ(aisim_yaml_file("/nonexistent/x.yaml", &value, &err), AISIM_EIO);
    char got[2048];
    CHECK_STR(aisim_error_format(&err, got, sizeof got),
              "/nonexistent/x.yaml: cannot be opened: No such file or directory");
}

static void writing_and_reading_gives_the_same(void)
{
    const char *text = "a: {b: [1, 2.5, 'x y', null, true], c: {}, d: []}\n"
                       "list:\n- k: 1\n  m: 2\n- [1, [2, {z: .inf}]]\n- ''\n"
                       "'odd key: #': \"tab\\there \\\"q\\\" \\\\ \\u00e9\"\n"
                       "quoted number: '12'\nversion: \"0.24.0\"\nbig: 18446744073709551615\n"
                       "small: 5e-324\n\"true\": yes\n";
    aisim_value *tree = read_text(text, NULL);
    CHECK(tree != NULL);
    aisim_text yaml = {0}, json = {0};
    aisim_emit_yaml(tree, &yaml);
    aisim_error err = {0};
    aisim_value *again = read_text(aisim_text_get(&yaml), &err);
    CHECK(again != NULL && aisim_value_equal(tree, again));
    CHECK_STR(err.text, "");
    CHECK_EQ(aisim_value_digest(tree), aisim_value_digest(again));
    aisim_value_free(again);
    aisim_value *part = aisim_value_get(tree, "a");
    aisim_emit_json(part, &json);
    CHECK_STR(aisim_text_get(&json), "{\"b\":[1,2.5,\"x y\",null,true],\"c\":{},\"d\":[]}");
    aisim_text_free(&yaml);
    aisim_text_free(&json);
    aisim_value_free(tree);
}

static void block_form_is_stable(void)
{
    aisim_value *tree = read_text("{a: {b: 1.0, c: [x, y]}, d: [{e: 1, f: {g: 2}}, 3]}", NULL);
    aisim_text yaml = {0};
    aisim_emit_yaml(tree, &yaml);
    CHECK_STR(aisim_text_get(&yaml), "a:\n  b: 1.0\n  c: [x, y]\n"
                                     "d:\n  - e: 1\n    f:\n      g: 2\n  - 3\n");
    aisim_text_free(&yaml);
    aisim_value_free(tree);
}

static void merge_and_take(void)
{
    aisim_value *base = read_text("{a: {x: 1, y: 2}, b: [1], c: 3}", NULL);
    aisim_value *over = read_text("{a: {y: 5, z: 6}, b: [2, 3], d: null}", NULL);
    aisim_value_merge(base, over);
    aisim_value *want = read_text("{a: {x: 1, y: 5, z: 6}, b: [2, 3], c: 3, d: null}", NULL);
    CHECK(aisim_value_equal(base, want));
    aisim_value *taken = aisim_value_take(base, "a");
    CHECK_EQ(aisim_value_len(taken), 3);
    CHECK(aisim_value_take(base, "a") == NULL);
    CHECK_EQ(aisim_value_len(base), 3);
    aisim_value *foreign = aisim_value_foreign((aisim_mark){0}, "function", 17);
    aisim_value *copy = aisim_value_copy(foreign);
    CHECK_EQ(aisim_value_handle(copy), 17);
    CHECK_STR(aisim_value_kind_name(copy), "function");
    aisim_value_free(foreign);
    aisim_value_free(copy);
    aisim_value_free(taken);
    aisim_value_free(base);
    aisim_value_free(want);
}

static void near_names(void)
{
    CHECK_EQ(aisim_near_distance("raet", "rate", 2), 1);
    CHECK_EQ(aisim_near_distance("max_sequnces", "max_sequences", 2), 1);
    CHECK_EQ(aisim_near_distance("abc", "xyz", 2), 3);
    aisim_near search = {.name = "polcy"};
    aisim_near_offer(&search, "preemption");
    aisim_near_offer(&search, "policy");
    CHECK(search.best != NULL && strcmp(search.best, "policy") == 0);
    aisim_near none = {.name = "tp"};
    aisim_near_offer(&none, "u");
    aisim_near_offer(&none, "dp");
    CHECK(none.best == NULL);
}

int main(void)
{
    scalars_follow_yaml_1_2();
    units_are_read_for_people();
    doubles_are_shortest_and_read_back();
    the_locale_changes_no_number();
    positions_are_kept();
    aliases_are_copies();
    malformed_text_is_refused_with_its_place();
    limits_hold();
    writing_and_reading_gives_the_same();
    block_form_is_stable();
    merge_and_take();
    near_names();
    return check_done();
}
