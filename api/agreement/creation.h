/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside the creation of communicators: the member ranks that call it find each other and get one
 * epoch, over the control streams only. The other ranks of the parent are not involved.
 *
 *   member                      leader: the lowest rank of the members in the parent
 *   HELLO(ranks, tag)  -->      may arrive before the leader's own call; it is kept then
 *               <-- GO(epoch)   when all members have sent HELLO
 *               <-- FAIL(why)   at the first deadline of any of them, or the end of a link
 *   QUIT               -->      the member has given up: the parent failed, or the leader is silent
 *   CANCEL             -->      the member's call was canceled; the leader answers by FAIL, or by
 *                               GO if that is already sent. Without an answer the member gives up
 *
 *               <-- ASK         to members that are missing after CALL_NS: it makes a link, whose
 *   ANSWER             -->      end is a death; and at the deadline, for an error text that names
 *                               the other rank's call. That rank gets a FAIL too. A member sends
 *                               ASK to a silent leader.
 *
 * A creation is identified by its name: the parent's epoch, the ranks in order, the called function
 * and its tag. A hash of the ranks is enough, because different ranks are only a mistake to be
 * reported. Calls of one name follow one another. Each rank has at most one at a time. A member
 * that calls again had its answer, or has sent QUIT on the same stream.
 *
 * A creation that is canceled, by a member or by the leader, fails on each member. The leader
 * stores which ranks got its FAIL, and members that call later get it then, the leader itself too.
 * So the n-th calls of a name on all members belong to one creation, and the calls after a canceled
 * creation to the next one.
 *
 * An epoch consists of the world rank that assigns it and a number of that rank. So for any two
 * processes no two communicators share an epoch, whatever each has made with others.
 *
 * A member that has given up when GO arrives revokes that epoch: the others' communicator fails as
 * if it had been made and then failed. So a creation may succeed on some members and fail on
 * others, but no rank waits for ever.
 */
#ifndef RCMI_CREATION_H
#define RCMI_CREATION_H

#include <pthread.h>
#include <stdbool.h>
#include "agreement.h"

/* The HELLO of a member that waits for this rank. */
struct rcmi_creation_hello {
    struct rcmi_creation_hello *next;
    struct rcmi_creation message;
    rcmi_deadline deadline;
};

enum rcmi_attendance { RCMI_ATTENDANCE_NONE, RCMI_ATTENDANCE_MISSING, RCMI_ATTENDANCE_HERE };

/* A call of this rank, while it lasts. */
struct rcmi_creating {
    struct rcmi_creating *next;
    const struct rcmi_creation_call *call;
    uint64_t hash, number;
    int leader;             /* rank of the parent */
    uint8_t *attendance;    /* leader: by rank of the parent: enum rcmi_attendance */
    int missing;            /* leader: members that have not sent HELLO */
    rcmi_deadline deadline; /* the earliest of all received */
    int64_t begun_ns;
    rcmi_deadline canceled_until; /* 0: not canceled; a canceled member waits for the answer */
    bool called, warned;          /* leader: has sent ASK to the missing ones; has logged it */
    rcmi_deadline ask_until;      /* 0: the other rank's call was not queried yet */
    int queried;                  /* rank of the parent */
    bool answered;
    struct rcmi_creation answer;
    bool differs; /* another rank was called with other ranks: all results but done are set */
    /* Results: */
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
    struct rcmi_canceled *canceled;      /* with members that have not got their answer */
    uint64_t calls;
    uint32_t epochs; /* assigned by this rank */
};

/* ---- creation_state.c; under the lock, which may be held while sending */
/* Whether both have the same name. */
bool rcmi_creation_same(const struct rcmi_creation *a, const struct rcmi_creation *b);
bool rcmi_creating_is(const struct rcmi_creating *creating, const struct rcmi_creation *message);
/* This rank's unfinished call of that name, or NULL. */
struct rcmi_creating *rcmi_creating_named(struct rcmi_creations *all,
                                          const struct rcmi_creation *message);
/* Fills a message about this call. */
void rcmi_creating_fill(const struct rcmi_creating *creating, enum rcmi_creation_type type,
                        struct rcmi_creation *message);
/* rank: of the parent */
void rcmi_creating_send(const struct rcmi_creations *all, const struct rcmi_creating *creating,
                        int rank, const struct rcmi_creation *message);
/* Notes a HELLO of rank, if that rank is missing. */
void rcmi_creating_note(struct rcmi_creating *creating, int rank,
                        const struct rcmi_creation_hello *hello);
/* Takes the HELLO of that name from a world rank; false if it has sent none. *ret_number: of its
 * call. _creating_take: of a rank of the parent, for this call. */
bool rcmi_hello_take(struct rcmi_creations *all, int world, const struct rcmi_creation *name,
                     uint64_t *ret_number);
bool rcmi_creating_take(struct rcmi_creations *all, const struct rcmi_creating *creating, int rank,
                        uint64_t *ret_number);

/* ---- creation_end.c; under the lock */
void rcmi_creating_end(struct rcmi_creating *creating, rcm_status status, int origin);
/* Leader: answers all members that have sent HELLO. */
void rcmi_creating_answer(struct rcmi_creations *all, const struct rcmi_creating *creating,
                          struct rcmi_creation *message);
/* Fails the creation, for the reason in creating->text; on the leader for all members that have
 * sent HELLO. */
void rcmi_creating_fail(struct rcmi_creations *all, struct rcmi_creating *creating,
                        rcm_status status, int origin);
/* Leader: the call of that world rank was canceled. message: the CANCEL, with origin and text. */
void rcmi_creation_cancel(struct rcmi_creations *all, const struct rcmi_creation *message,
                          int world);
/* Leader: whether the call of that name by that world rank belongs to a canceled creation, in which
 * case it gets its answer. own: the call, if it is this rank's, else NULL. */
bool rcmi_creation_refuse(struct rcmi_creations *all, const struct rcmi_creation *message,
                          int world, struct rcmi_creating *own);
void rcmi_canceled_free(struct rcmi_creations *all);

#endif
