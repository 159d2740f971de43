/* l_records.c - the requests of a run: run.requests and requests.jsonl. Records are kept in the
 * order of the ends, as many as the run allows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lua/l_metrics.h"
#include "metrics/request_log.h"

/* core sim:record_count_() -> kept, lost */
static int sim_record_count(lua_State *L)
{
    aisim_l_sim *s;
    const aisim_l_metrics *m = aisim_l_check_built(L, &s);
    lua_pushinteger(L, (lua_Integer)m->records.len);
    lua_pushinteger(L, (lua_Integer)m->lost_records);
    return 2;
}

/* core sim:record_(i) -> table with the keys of requests.jsonl, undefined ones absent */
static int sim_record(lua_State *L)
{
    aisim_l_sim *s;
    const aisim_l_metrics *m = aisim_l_check_built(L, &s);
    lua_Integer i = luaL_checkinteger(L, 2);
    if (i < 1 || i > (lua_Integer)m->records.len) {
        return 0;
    }
    const aisim_record *record = &m->records.data[i - 1];
    lua_newtable(L);
    const aisim_record_field *field;
    for (uint32_t f = 0; (field = aisim_record_field_at(f)) != NULL; f++) {
        const char *text = aisim_record_text(record, field);
        double number = aisim_record_number(record, field);
        if (text != NULL) {
            lua_pushstring(L, text);
        } else if (!isnan(number)) {
            lua_Integer whole;
            if (lua_numbertointeger(number, &whole) && (double)whole == number &&
                strstr(field->key, "_ms") == NULL) {
                lua_pushinteger(L, whole);
            } else {
                lua_pushnumber(L, number);
            }
        } else {
            continue;
        }
        lua_setfield(L, -2, field->key);
    }
    lua_pushinteger(L, (lua_Integer)record->request_id); /* request_id may be a text of its file */
    lua_setfield(L, -2, "id");
    if (record->class_name != NULL) {
        lua_pushstring(L, record->class_name);
        lua_setfield(L, -2, "class");
    }
    return 1;
}

/* core.record_keys() -> list of the keys of a record, `class` apart */
static int l_record_keys(lua_State *L)
{
    const aisim_record_field *field;
    lua_newtable(L);
    for (uint32_t f = 0; (field = aisim_record_field_at(f)) != NULL; f++) {
        lua_pushstring(L, field->key);
        lua_rawseti(L, -2, (lua_Integer)f + 1);
    }
    return 1;
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* core sim:batches_(key, n) -> list of n means of a number of the records, over batches of equal
 * size in the order of arrival; nil when records were lost or fewer than n have a value. */
static int sim_batches(lua_State *L)
{
    aisim_l_sim *s;
    const aisim_l_metrics *m = aisim_l_check_built(L, &s);
    const char *key = luaL_checkstring(L, 2);
    uint32_t n = (uint32_t)luaL_checkinteger(L, 3);
    const aisim_record_field *field = NULL;
    for (uint32_t f = 0; (field = aisim_record_field_at(f)) != NULL; f++) {
        if (strcmp(field->key, key) == 0) {
            break;
        }
    }
    AISIM_ARRAY(double) pairs = {0}; /* arrival, value */
    for (uint32_t i = 0; field != NULL && i < m->records.len; i++) {
        const aisim_record *record = &m->records.data[i];
        double value = aisim_record_number(record, field);
        if (record->measured && !isnan(value)) {
            aisim_array_push(&pairs, record->arrival_ms);
            aisim_array_push(&pairs, value);
        }
    }
    uint32_t values = pairs.len / 2;
    bool known = m->lost_records == 0 && values >= n;
    if (known) {
        qsort(pairs.data, values, 2 * sizeof *pairs.data, by_value);
        lua_createtable(L, (int)n, 0);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t from = (uint32_t)((uint64_t)values * i / n);
            uint32_t to = (uint32_t)((uint64_t)values * (i + 1) / n);
            double sum = 0;
            for (uint32_t k = from; k < to; k++) {
                sum += pairs.data[2 * k + 1];
            }
            lua_pushnumber(L, sum / (to - from));
            lua_rawseti(L, -2, (lua_Integer)i + 1);
        }
    }
    aisim_array_free(&pairs);
    return known ? 1 : 0;
}

/* core sim:jsonl_(path, preparation): the request log as a file */
static int sim_jsonl(lua_State *L)
{
    aisim_l_sim *s;
    const aisim_l_metrics *m = aisim_l_check_built(L, &s);
    const char *path = luaL_checkstring(L, 2);
    bool preparation = lua_toboolean(L, 3);
    aisim_error err = {0};
    aisim_request_log *log = NULL;
    aisim_request_logs logs = {0};
    if (aisim_request_log_open(path, &log, &err) != AISIM_OK) {
        return aisim_l_raise(L, &err);
    }
    *(preparation ? &logs.preparation : &logs.measured) = log;
    for (uint32_t i = 0; i < m->records.len; i++) {
        aisim_request_logs_sink(&logs, &m->records.data[i]);
    }
    if (aisim_request_log_close(log, &err) != AISIM_OK) {
        return aisim_l_raise(L, &err);
    }
    return 0;
}

/* core sim:profile_jsonl_(path): the same as AIPerf writes it */
static int sim_profile_jsonl(lua_State *L)
{
    aisim_l_sim *s;
    const aisim_l_metrics *m = aisim_l_check_built(L, &s);
    aisim_error err = {0};
    aisim_profile_log *log = NULL;
    if (aisim_profile_log_open(luaL_checkstring(L, 2), &log, &err) != AISIM_OK) {
        return aisim_l_raise(L, &err);
    }
    for (uint32_t i = 0; i < m->records.len; i++) {
        aisim_profile_log_add(log, &m->records.data[i]);
    }
    if (aisim_profile_log_close(log, &err) != AISIM_OK) {
        return aisim_l_raise(L, &err);
    }
    return 0;
}

void aisim_l_records_register(lua_State *L)
{
    aisim_l_extend(L, "aisim.Sim",
                   (const luaL_Reg[]){{"record_count_", sim_record_count},
                                      {"record_", sim_record},
                                      {"jsonl_", sim_jsonl},
                                      {"profile_jsonl_", sim_profile_jsonl},
                                      {"batches_", sim_batches},
                                      {NULL, NULL}});
    luaL_setfuncs(L, (const luaL_Reg[]){{"record_keys", l_record_keys}, {NULL, NULL}}, 0);
}
