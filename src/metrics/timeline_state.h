/* timeline_state.h - inside of the timeline: what timeline.c (engine, plays) and
 * timeline_requests.c (requests and their arrows) share. */
#ifndef AISIM_METRICS_TIMELINE_STATE_H
#define AISIM_METRICS_TIMELINE_STATE_H

#include "base/map.h"
#include "metrics/timeline.h"
#include "metrics/tracefile.h"

enum {
    TIMELINE_PASSES = 1,
    TIMELINE_TO_HOST = 2,
    TIMELINE_FROM_HOST = 3,
    TIMELINE_HANDOFF = 4,
    TIMELINE_RANKS = 10,
    TIMELINE_SEATS = 100,
    TIMELINE_CLIENT = 1000,
    TIMELINE_BESIDE = 1000000, /* times the thread: transfers at the same time as one there */
    TIMELINE_KINDS = 3         /* of transfers */
};

/* Numbers that are taken and given back, lowest first. */
typedef struct {
    AISIM_ARRAY(bool) taken;
    uint32_t lowest; /* none below is free */
} timeline_numbers;

typedef struct {
    timeline_numbers seats;
    AISIM_ARRAY(int64_t) busy_ns[TIMELINE_KINDS]; /* until when the threads of transfers are */
    bool hosted;                                  /* a host block was seen */
    uint32_t stops;                               /* how often it stopped */
    int64_t stopped_ns;                           /* and when last */
} timeline_worker;

/* One end of an arrow. */
typedef struct {
    aisim_tracefile_place place;
    int64_t t_ns; /* inside of a span there; -1 = no end */
} timeline_point;

typedef struct {
    uint32_t worker; /* AISIM_NONE = not dispatched */
    uint32_t seat, client_seat;
    uint32_t stops; /* of its worker when it came there */
    int64_t arrived_ns, dispatched_ns, since_ns;
    const char *doing; /* "queued", "prefill", "held", "decode", "preempted" */
    bool works;        /* doing is "prefill" or "decode" */
    const char *why;   /* what came between its last work and the next, NULL = nothing */
    timeline_point worked, handed, loaded; /* last work; its hand-off; its last copy from host */
} timeline_request;

/* Where a request was drawn at the client. */
typedef struct {
    uint32_t seat; /* AISIM_NONE = not known */
    int64_t begin_ns, end_ns;
} timeline_past;

typedef struct {
    char *play; /* NULL = none */
    int64_t since_ns;
} timeline_lane;

struct aisim_timeline {
    aisim_tracefile events;
    aisim_timeline_options options;
    AISIM_ARRAY(uint32_t) rank_worker;
    AISIM_ARRAY(uint32_t) rank_place; /* of its worker, from 0 */
    AISIM_ARRAY(timeline_worker) workers;
    AISIM_ARRAY(timeline_request) live;
    AISIM_ARRAY(uint32_t) unused; /* entries of live */
    AISIM_ARRAY(timeline_lane) lanes;
    timeline_numbers client_seats;
    aisim_map by_id;
    AISIM_ARRAY(timeline_past) past; /* of requests with an end, by id */
    uint32_t flows;                  /* edges so far */
    uint64_t arrows;
};

void timeline_name_thread(aisim_timeline *timeline, uint32_t process, uint32_t thread,
                          const char *name);

/* timeline_requests.c */

/** Any event of a request but those of its transfers. */
void timeline_request_event(aisim_timeline *timeline, const aisim_event *event);

/** A transfer of a request has been drawn at this place. */
void timeline_request_transfer(aisim_timeline *timeline, const aisim_event *event,
                               aisim_tracefile_place place, int64_t end_ns);

#endif
