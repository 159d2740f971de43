/* l_calibrate.c - making a calibration of a hardware from measured tables (timing.md §10).
 *
 * core.calibrator(folder, hardware[, share]) reads the tables; with a share, that part of the rows
 * is withheld and errors() says how well the rest predicts them. Which models and parallelisms get
 * curves is decided in lua/aisim/cli. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "lua/l_model.h"
#include "timing/capacity.h"
#include "timing/leave_out.h"

#define CALIBRATOR "aisim.Calibrator"

enum { ORIGIN_MAX = 8 };

typedef struct l_calibrator {
    aisim_table *table;
    aisim_calibrator *calibrator;
    aisim_hardware hardware;
    aisim_held_row *held;
    size_t n_held;
} l_calibrator;

static int calibrator_gc(lua_State *L)
{
    l_calibrator *c = luaL_checkudata(L, 1, CALIBRATOR);
    aisim_calibrator_free(c->calibrator);
    aisim_table_free(c->table);
    aisim_free(c->held);
    memset(c, 0, sizeof *c);
    return 0;
}

/* core.calibrator(folder, hardware descriptor, share of rows to withhold or nil) */
static int l_new(lua_State *L)
{
    aisim_error err = {0};
    const char *folder = luaL_checkstring(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    double share = luaL_optnumber(L, 3, 0);
    aisim_l_machine *machine = aisim_l_push_machine(L);
    aisim_l_machine_hardware(L, machine, 2);
    l_calibrator *c = lua_newuserdatauv(L, sizeof *c, 0);
    memset(c, 0, sizeof *c);
    luaL_setmetatable(L, CALIBRATOR);
    c->hardware = *aisim_l_machine_hardware_of(machine);
    if (aisim_table_load(folder, &c->hardware, &c->table, &err) != AISIM_OK) {
        return aisim_l_raise(L, &err);
    }
    if (share > 0) {
        aisim_table *whole = c->table;
        aisim_table_split(whole, share, &c->table, &c->held, &c->n_held);
        aisim_table_free(whole);
    }
    c->calibrator = aisim_calibrator_new(c->table, &c->hardware);
    return 1;
}

/* calibrator:add(model descriptor, {tensor, pipeline, attention_data, moe_tensor, moe_expert}): all
 * operations get curves of their own */
static int calibrator_add(lua_State *L)
{
    l_calibrator *c = luaL_checkudata(L, 1, CALIBRATOR);
    luaL_checktype(L, 2, LUA_TTABLE);
    luaL_checktype(L, 3, LUA_TTABLE);
    aisim_l_machine *machine = aisim_l_push_machine(L);
    aisim_l_machine_model(L, machine, 2);
    uint32_t degrees[5];
    for (int i = 0; i < 5; i++) {
        lua_rawgeti(L, 3, i + 1);
        degrees[i] = (uint32_t)luaL_checkinteger(L, -1);
        lua_pop(L, 1);
    }
    aisim_error err = {0};
    if (aisim_l_machine_split(machine, degrees, &err) != AISIM_OK ||
        aisim_calibrator_add(c->calibrator, aisim_l_machine_model_of(machine),
                             aisim_l_machine_parallelism_of(machine), AISIM_CALIBRATE_ALL,
                             &err) != AISIM_OK) {
        return aisim_l_raise(L, &err);
    }
    return 0;
}

static void add_if_it_fits(lua_State *L, l_calibrator *c, const aisim_model *model,
                           const aisim_parallelism *parallelism)
{
    aisim_capacity_request request = aisim_capacity_request_default();
    aisim_capacity capacity;
    aisim_error err = {0};
    if (aisim_capacity_compute(model, &c->hardware, parallelism, &request, "", &capacity, NULL) ==
            AISIM_OK &&
        aisim_calibrator_add(c->calibrator, model, parallelism, AISIM_CALIBRATE_KERNELS, &err) !=
            AISIM_OK) {
        aisim_l_raise(L, &err);
    }
}

/* calibrator:add_kernels(model descriptor): what hardly carries over from other shapes gets curves
 * for tensor degrees 1 to a node, experts split by width or by number, as far as the weights fit */
static int calibrator_add_kernels(lua_State *L)
{
    l_calibrator *c = luaL_checkudata(L, 1, CALIBRATOR);
    luaL_checktype(L, 2, LUA_TTABLE);
    aisim_l_machine *machine = aisim_l_push_machine(L);
    aisim_l_machine_model(L, machine, 2);
    const aisim_model *model = aisim_l_machine_model_of(machine);
    for (uint32_t tensor = 1; tensor <= c->hardware.gpus_per_node; tensor *= 2) {
        aisim_parallelism p = aisim_parallelism_one();
        p.tensor = tensor;
        if (model->experts > 0) {
            p.moe_tensor = tensor;
            add_if_it_fits(L, c, model, &p);
            p.moe_tensor = 1;
            p.moe_expert = tensor;
        }
        add_if_it_fits(L, c, model, &p);
    }
    return 0;
}

/* calibrator:add_donors() */
static int calibrator_add_donors(lua_State *L)
{
    l_calibrator *c = luaL_checkudata(L, 1, CALIBRATOR);
    aisim_calibrator_add_donors(c->calibrator);
    return 0;
}

/* calibrator:write(path, lines of the origin) -> records, numbers, hash of the tables */
static int calibrator_write(lua_State *L)
{
    l_calibrator *c = luaL_checkudata(L, 1, CALIBRATOR);
    const char *path = luaL_checkstring(L, 2);
    luaL_checktype(L, 3, LUA_TTABLE);
    const char *origin[ORIGIN_MAX + 1] = {NULL};
    for (int i = 0; i < ORIGIN_MAX && i < luaL_len(L, 3); i++) {
        lua_rawgeti(L, 3, i + 1);
        origin[i] = luaL_checkstring(L, -1); /* stays alive in the table */
        lua_pop(L, 1);
    }
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        return aisim_l_fail(L, "cannot write %s: %s", path, strerror(errno));
    }
    aisim_calibration_info info;
    aisim_error err = {0};
    aisim_status status = aisim_calibrator_write(c->calibrator, origin, file, &info, &err);
    if (fclose(file) != 0 && status == AISIM_OK) {
        status = aisim_fail(&err, AISIM_EIO, "cannot write %s: %s", path, strerror(errno));
    }
    if (status != AISIM_OK) {
        remove(path);
        return aisim_l_raise(L, &err);
    }
    lua_pushinteger(L, info.records);
    lua_pushinteger(L, info.numbers);
    char hash[20];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)info.inputs);
    lua_pushstring(L, hash);
    return 3;
}

/* calibrator:errors() -> list of withheld rows { family, own, calibrated, tables }: errors relative
 * to the measured value, signed */
static int calibrator_errors(lua_State *L)
{
    l_calibrator *c = luaL_checkudata(L, 1, CALIBRATOR);
    aisim_error err = {0};
    if (aisim_leave_out_errors(c->calibrator, c->table, &c->hardware, c->held, c->n_held, &err) !=
        AISIM_OK) {
        return aisim_l_raise(L, &err);
    }
    lua_createtable(L, (int)c->n_held, 0);
    for (size_t i = 0; i < c->n_held; i++) {
        const aisim_held_row *row = &c->held[i];
        lua_createtable(L, 4, 0);
        lua_pushstring(L, aisim_family_name(row->family));
        lua_rawseti(L, -2, 1);
        lua_pushboolean(L, row->own);
        lua_rawseti(L, -2, 2);
        lua_pushnumber(L, row->calibrated_error);
        lua_rawseti(L, -2, 3);
        lua_pushnumber(L, row->table_error);
        lua_rawseti(L, -2, 4);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

void aisim_l_calibrate_register(lua_State *L)
{
    static const luaL_Reg functions[] = {{"calibrator", l_new}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"add", calibrator_add},
                                       {"add_kernels", calibrator_add_kernels},
                                       {"add_donors", calibrator_add_donors},
                                       {"write", calibrator_write},
                                       {"errors", calibrator_errors},
                                       {NULL, NULL}};
    static const aisim_l_class class_ = {CALIBRATOR, methods, NULL, NULL, NULL, calibrator_gc};
    luaL_setfuncs(L, functions, 0);
    aisim_l_class_register(L, &class_);
}
