/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mpa2-cm: a program on librdmacm that the end-to-end tests drive.
 *
 *   mpa2-cm agent [many]       does what it is told on its standard input;
 *                              with many more than 48 connections at a time
 *   mpa2-cm passive-first ...  connections whose passive side sends first
 *
 * Nothing in it knows about iw_mpa2: it is an ordinary rdma_cm application.
 */
#ifndef MPA2_CM_H
#define MPA2_CM_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* rdma_conn_param counts private data in 8 bits. */
#define PD_MAX 255

/* output.c */

/**
 * out_begin() - begin a line of output, one JSON object
 * @event: its name
 *
 * Followed by any of the out_* below and ended by out_end().
 */
void out_begin(const char *event);
void out_int(const char *name, long long value);
void out_ms(const char *name, double value);
void out_text(const char *name, const char *value);
void out_hex(const char *name, const void *data, size_t len);
void out_end(void);

/** out_error() - a whole line: a call failed with errno */
void out_error(const char *what, int id);

/** now_ms() - monotonic time in milliseconds */
double now_ms(void);

/* qp.c */

/**
 * struct conn - one connection: an rdma_cm id with a QP and its memory
 * @id: rdma_cm's
 * @number: by which the driving test names it
 * @cq: for both queues
 * @channel: of the completions
 * @mr: over @buffer
 * @buffer: sends in its first half, receives in its second
 * @depth: work requests that each queue holds
 * @size: largest message
 * @shared: set before the QP is made: its receives go to an SRQ of its own
 * @srq: that SRQ
 */
struct conn {
	struct rdma_cm_id *id;
	int number;
	struct ibv_cq *cq;
	struct ibv_comp_channel *channel;
	struct ibv_mr *mr;
	uint8_t *buffer;
	unsigned int depth;
	size_t size;
	unsigned int next_recv;
	bool shared;
	struct ibv_srq *srq;
};

/**
 * conn_many() - get over a limit of libsiw, which takes one offset for an error
 *
 * Queues are mapped at offsets that count up by pages.  The one at 0x90000 is what
 * the library has for "no queue", and then nothing else can be had: a process ends
 * at 144 queues, three for each struct conn.  After this the first conn of a
 * device also makes a CQ so large that this offset lies within it.
 */
void conn_many(void);

/** conn_create_qp() - 0, or -1 with errno */
int conn_create_qp(struct conn *conn, unsigned int depth, size_t size);

/** conn_destroy_qp() - give back all but the id; the QP may be missing */
void conn_destroy_qp(struct conn *conn);

/** conn_destroy_srq() - 0, or -1 with errno: EBUSY while the QP is there */
int conn_destroy_srq(struct conn *conn);

/** conn_post_recv() - 0, or -1 with errno */
int conn_post_recv(struct conn *conn);

/**
 * conn_post_send() - post a Send of octets that tell its place in the order
 * @conn: the connection
 * @number: goes into every octet of the message and is the wr_id
 * @len: octets
 *
 * Return: 0, or -1 with errno.
 */
int conn_post_send(struct conn *conn, uint64_t number, size_t len);

/** conn_post_rdma() - post an RDMA Read or Write; 0, or -1 with errno */
int conn_post_rdma(struct conn *conn, enum ibv_wr_opcode opcode, uint64_t number,
		   size_t len, uint64_t addr, uint32_t rkey);

/** conn_recv_buffer() - where the message of a receive completion lies */
const uint8_t *conn_recv_buffer(const struct conn *conn, uint64_t wr_id);

/** wait_completion() - 1 with *wc, 0 after timeout_ms, -1 with errno */
int wait_completion(struct conn *conn, struct ibv_wc *wc, int timeout_ms);

/** set_nonblocking() - 0, or -1 with errno */
int set_nonblocking(int fd);

/* options.c */

/** parse_address() - host and port to a sockaddr; exits if it cannot */
void parse_address(const char *host, unsigned int port, struct sockaddr_storage *addr);

/** parse_number() - a number from 0 to max; exits if it is none */
unsigned long parse_number(const char *text, unsigned long max);

/** fill_private_data() - the pattern of a length, checked at the other end */
void fill_private_data(uint8_t *data, size_t len);

/* the subcommands */
int agent_main(int argc, char **argv);
int passive_first_main(int argc, char **argv);

#endif
