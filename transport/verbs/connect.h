/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How queue pairs come to their peers': the thread that connects them (connect.c), and its methods
 * (exchange.c, cm.c). The last part of verbs.h, which has the types. Not for: when a link is ready
 * (link.c).
 */
#ifndef RCMI_VERBS_CONNECT_H
#define RCMI_VERBS_CONNECT_H

/* connect.c */
/* A queue pair that is to be connected. It has copies of what it needs, since its link may go down
 * meanwhile. */
struct verbs_job {
    struct verbs_job *next;
    struct verbs_connector *connector;
    struct verbs_link *link; /* NULL: nothing wants it any more; under the connector's lock */
    const struct verbs_port *port;
    struct ibv_qp *qp;
    struct verbs_offered far; /* the peer's port, and its queue pair */
    uint64_t token, far_token;
    rcmi_deadline until;                 /* counted from when it was queued */
    struct verbs_connection *connection; /* that was made */
};

/* How queue pairs of a device come to their peers'. */
struct verbs_method {
    /* Only the side that dialled connects; to the other one that is done (port->requests). */
    bool one_sided;
    /* The end of a send says that the other side has it; else only the answer to a read does. */
    bool acknowledges;
    /* Finds the port's address, of n that it has, and whatever else its peers must be offered. */
    rcm_status (*open)(struct verbs_port *port, int n);
    /* Of a port that was opened, also if that failed. */
    void (*close)(struct verbs_port *port);
    /* Has the loop hear of peers that connect to the port, if they do. */
    rcm_status (*watch)(struct verbs_port *port);
    /* Takes the queue pair there, by the connector's thread; it may block. An error number, or 0;
     * EPROTO: another one than the peer answers. */
    int (*connect)(struct verbs_job *job);
    /* Of link->connection or job->connection; its queue pair is gone. */
    void (*disconnect)(struct verbs_connection *connection);
};
extern const struct verbs_method verbs_by_exchange, verbs_by_cm;
rcm_status verbs_connector_make(struct verbs_domain *domain);
void verbs_connector_free(struct verbs_domain *domain);
/* Connects link->qp to the peer's, later, by the connector's thread, if that is this side's
 * part. */
rcm_status verbs_connect(struct verbs_link *link, const struct verbs_offered *peer);
/* The connector does not touch the link any more. True: it destroys link->qp itself. */
bool verbs_connect_cancel(struct verbs_link *link);
/* By method->connect: waits until fd can be read. ETIMEDOUT: job->until has passed; ECANCELED:
 * nothing wants the job any more. */
int verbs_job_wait(const struct verbs_job *job, int fd);

/* exchange.c */
/* How a queue pair of the port comes to its peer's. */
struct verbs_path {
    struct ibv_qp_attr to_rtr, to_rts;
};
void verbs_path_to(const struct verbs_port *port, const struct verbs_offered *peer,
                   struct verbs_path *ret_path);
/* Takes the queue pair there, which may block; an error number, or 0. */
int verbs_qp_connect(const struct verbs_table *table, struct ibv_qp *qp, struct verbs_path *path);

#endif
