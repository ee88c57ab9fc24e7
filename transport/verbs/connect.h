/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connecting queue pairs: the thread that does it (connect.c), and its methods (connect_exchange.c,
 * rdma_cm.c). The last part of verbs.h, which has the types. Not here: when a link is ready
 * (link.c).
 */
#ifndef RCMI_VERBS_CONNECT_H
#define RCMI_VERBS_CONNECT_H

/* connect.c */
/* A queue pair to be connected. It has copies of what it needs, because its link may go down
 * meanwhile. */
struct verbs_job {
    struct verbs_job *next;
    struct verbs_connector *connector;
    struct verbs_link *link; /* NULL: cancelled; under the connector's lock */
    const struct verbs_port *port;
    struct ibv_qp *qp;
    struct verbs_offered far; /* the peer's port, and its queue pair */
    uint64_t token, far_token;
    rcmi_deadline until;                 /* counted from when it was queued */
    struct verbs_connection *connection; /* the result; NULL: none */
};

/* A method to connect queue pairs of a device. */
struct verbs_method {
    /* Only the dialling side connects; the other side accepts (port->requests). */
    bool one_sided;
    /* The completion of a send proves that the peer has it; else only the answer to a read does. */
    bool acknowledges;
    /* Finds the port's address, among its n GIDs, and whatever else peers must be offered. */
    rcm_status (*open)(struct verbs_port *port, int n);
    /* For a port that was opened, also if that failed. */
    void (*close)(struct verbs_port *port);
    /* Makes the loop watch for peers that connect to the port, if the method needs that. */
    rcm_status (*watch)(struct verbs_port *port);
    /* Connects the queue pair, in the connector's thread; may block. Returns an error number, or 0.
     * EPROTO: the answer came from another process than the peer. */
    int (*connect)(struct verbs_job *job);
    /* Ends link->connection or job->connection. Its queue pair is already destroyed. */
    void (*disconnect)(struct verbs_connection *connection);
};
extern const struct verbs_method verbs_by_exchange, verbs_by_cm;
rcm_status verbs_connector_make(struct verbs_domain *domain);
void verbs_connector_free(struct verbs_domain *domain);
/* Queues link->qp to be connected by the connector's thread, if this side connects. */
rcm_status verbs_connect(struct verbs_link *link, const struct verbs_offered *peer);
/* Cancels the job: the connector no longer touches the link. True: it destroys link->qp itself. */
bool verbs_connect_cancel(struct verbs_link *link);
/* For method->connect: waits until fd is readable. ETIMEDOUT: job->until has passed; ECANCELED: the
 * job was cancelled. */
int verbs_job_wait(const struct verbs_job *job, int fd);

/* connect_exchange.c */
/* The attributes that connect a queue pair of the port to its peer's. */
struct verbs_path {
    struct ibv_qp_attr to_rtr, to_rts;
};
void verbs_path_to(const struct verbs_port *port, const struct verbs_offered *peer,
                   struct verbs_path *ret_path);
/* Connects the queue pair; may block. Returns an error number, or 0. */
int verbs_qp_connect(const struct verbs_table *table, struct ibv_qp *qp, struct verbs_path *path);

#endif
