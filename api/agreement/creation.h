/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside the creation of communicators: those of its ranks that call it find each other, and get
 * one epoch, over the control streams alone. The other ranks of the parent know nothing of it.
 *
 *   member                      leader: the lowest rank of the members in the parent
 *   HELLO(ranks, tag)  -->      may come before the leader's own call; it is kept then
 *               <-- GO(epoch)   when all members have said hello
 *               <-- FAIL(why)   at the first deadline of any of them, or the end of a link
 *   QUIT               -->      the member has given up: the parent failed, or the leader is silent
 *   CANCEL             -->      the member's call was canceled; the leader answers by FAIL, or by
 *                               GO if that is on its way. Not for long: then it has given up
 *
 *               <-- ASK         whom the leader misses after a while: so a link is made, whose end
 *   ANSWER             -->      is a death; and, at the deadline, for a sentence that names what
 *                               the other rank called instead; that one is sent a FAIL, too. A
 *                               member asks a silent leader.
 *
 * A creation is known by the parent's epoch, the ranks in their order, the function that was
 * called, and its tag; by a hash of the ranks, since different ones are only a mistake to be
 * reported. Calls of one name follow one another: each rank has at most one at a time, and a member
 * that calls again had its answer, or has said QUIT on the same stream.
 *
 * A creation that is canceled, by a member or by the leader, fails on each member: the leader keeps
 * who has got its FAIL, and those that call later get it then, itself too. So the n-th call of a
 * name on each member is of one creation, and that after a canceled one is of the next.
 *
 * An epoch is the world rank that gives it and a number of that rank's, so that of any two
 * processes no two communicators share one, whatever the two have made with others.
 *
 * A member that has given up when GO comes revokes that epoch: the others' communicator fails as if
 * it had been made and then failed. So a creation may succeed on some members and fail on others,
 * but nobody waits for ever.
 */
#ifndef RCMI_CREATION_H
#define RCMI_CREATION_H

#include <pthread.h>
#include <stdbool.h>
#include "agreement.h"

/* A member that has said hello to this rank and waits. */
struct rcmi_creation_hello {
    struct rcmi_creation_hello *next;
    struct rcmi_creation said;
    rcmi_deadline deadline;
};

enum rcmi_attendance { RCMI_ATTENDANCE_NONE, RCMI_ATTENDANCE_MISSING, RCMI_ATTENDANCE_HERE };

/* A call of this rank, while it lasts. */
struct rcmi_creating {
    struct rcmi_creating *next;
    const struct rcmi_creation_call *call;
    uint64_t hash, number;
    int leader;             /* rank of the parent */
    uint8_t *attendance;    /* the leader's, by rank of the parent: enum rcmi_attendance */
    int missing;            /* the leader's: members that have not said hello */
    rcmi_deadline deadline; /* the earliest of all that have come */
    int64_t begun_ns;
    rcmi_deadline canceled_until; /* 0: not; a member that was canceled waits for the answer */
    bool called, warned;          /* the leader has asked those that it misses; has logged it */
    rcmi_deadline ask_until;      /* 0: not asked yet what the other rank does */
    int asked;                    /* rank of the parent */
    bool answered;
    struct rcmi_creation answer;
    bool differs; /* another rank was called with other ranks: the result but for done is there */
    /* The result: */
    bool done;
    rcm_status status;
    int origin;
    uint64_t epoch;
    char text[480];
};

struct rcmi_creations {
    struct rcmi_creations_config config;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    struct rcmi_creating *head;
    struct rcmi_creation_hello **hellos; /* by world rank */
    struct rcmi_canceled *canceled;      /* whose members have not all got their answer */
    uint64_t calls;
    uint32_t epochs; /* given by this rank */
};

/* ---- creation_state.c; under the lock, which sending does not mind */
/* Have they one name? */
bool rcmi_creation_same(const struct rcmi_creation *a, const struct rcmi_creation *b);
bool rcmi_creating_is(const struct rcmi_creating *creating, const struct rcmi_creation *said);
/* This rank's call of that name which is not done, or NULL. */
struct rcmi_creating *rcmi_creating_named(struct rcmi_creations *all,
                                          const struct rcmi_creation *said);
/* A message about this call. */
void rcmi_creating_fill(const struct rcmi_creating *creating, enum rcmi_creation_type type,
                        struct rcmi_creation *message);
/* rank: of the parent */
void rcmi_creating_send(const struct rcmi_creations *all, const struct rcmi_creating *creating,
                        int rank, const struct rcmi_creation *message);
/* Notes a hello of rank, if that is missing. */
void rcmi_creating_note(struct rcmi_creating *creating, int rank,
                        const struct rcmi_creation_hello *hello);
/* Takes a world rank's hello of that name; false if it has said none. *ret_number: of its call.
 * _creating_take: rank's of the parent, for this call. */
bool rcmi_hello_take(struct rcmi_creations *all, int world, const struct rcmi_creation *name,
                     uint64_t *ret_number);
bool rcmi_creating_take(struct rcmi_creations *all, const struct rcmi_creating *creating, int rank,
                        uint64_t *ret_number);

/* ---- creation_end.c; under the lock */
void rcmi_creating_end(struct rcmi_creating *creating, rcm_status status, int origin);
/* The leader: to all members that have come. */
void rcmi_creating_answer(struct rcmi_creations *all, const struct rcmi_creating *creating,
                          struct rcmi_creation *message);
/* The creation fails for the reason in creating->text; of a leader, for all that have come. */
void rcmi_creating_fail(struct rcmi_creations *all, struct rcmi_creating *creating,
                        rcm_status status, int origin);
/* The leader: the call of that world rank was canceled; said: that, with origin and text. */
void rcmi_creation_cancel(struct rcmi_creations *all, const struct rcmi_creation *said, int world);
/* The leader: is the call of that name by that world rank of a canceled creation? If so, it gets
 * its answer. own: the call, if it is this rank's, else NULL. */
bool rcmi_creation_refuse(struct rcmi_creations *all, const struct rcmi_creation *said, int world,
                          struct rcmi_creating *own);
void rcmi_canceled_free(struct rcmi_creations *all);

#endif
