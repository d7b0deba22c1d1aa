/* SPDX-License-Identifier: Apache-2.0
 *
 * The words between a server and the process that takes it over (docs/takeover.md): messages of a kind, with a body and
 * with descriptors (SCM_RIGHTS), on a Unix socket that keeps their bounds and tells each side when the other process is
 * gone. What is said when is takeover.c's (the predecessor) and takeover_join.c's (the successor).
 *
 * Both run on one machine, so numbers are as this machine has them. A change of anything here is another
 * WEIR_TAKEOVER_PROTOCOL.
 *
 * Thread rule: sending from any thread, one message at a time (WEIR_TAKEOVER_CONN and its bytes: the caller locks);
 * receiving from one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/error.h"

#define WEIR_TAKEOVER_PROTOCOL 1
#define WEIR_TAKEOVER_BODY_MAX ((size_t)32 << 10)
#define WEIR_TAKEOVER_FDS_MAX 64
#define WEIR_TAKEOVER_TEXT_MAX 256
/* For how long who sends waits for the other side to read. */
#define WEIR_TAKEOVER_SEND_MS 5000

/* In the order in which they are said. S: the successor says it, P: the predecessor. */
enum weir_takeover_kind {
    WEIR_TAKEOVER_HELLO = 1, /* S: struct weir_takeover_hello */
    WEIR_TAKEOVER_REFUSED,   /* P, at any time before GO: why, as text; nothing has happened */
    WEIR_TAKEOVER_WELCOME,   /* P: struct weir_takeover_welcome, and the socket that successors connect to */
    WEIR_TAKEOVER_LISTENER, /* P: struct weir_takeover_listener, and sockets that listen; each may come several times */
    WEIR_TAKEOVER_LISTENED, /* P: those were all */
    WEIR_TAKEOVER_READY,    /* S: its configuration is good; freeze */
    WEIR_TAKEOVER_STATE,    /* P: the counters in memory, and the lock of table.snapshot if there is one */
    WEIR_TAKEOVER_CONN,     /* P: struct weir_takeover_conn, and the connection's socket; after DECIDING, too */
    WEIR_TAKEOVER_BYTES,    /* P: of the last CONN, more */
    WEIR_TAKEOVER_END,      /* P: struct weir_takeover_end; that was all */
    WEIR_TAKEOVER_TAKEN,    /* S: it has all, and could decide */
    WEIR_TAKEOVER_GO,       /* P: it will not decide any more, unless the successor dies before it says: */
    WEIR_TAKEOVER_DECIDING, /* S: it decides from here on */
    WEIR_TAKEOVER_KINDS
};

struct weir_takeover_hello {
    uint32_t protocol;
    int32_t pid;
    char version[64];
};

/* Whom a service manager's predecessor tells how it goes, so that its successor can go on telling. */
struct weir_takeover_welcome {
    struct weir_takeover_hello hello;
    uint64_t watchdog_ns; /* 0: there is none */
    uint32_t notify_size; /* of `notify`, a struct sockaddr_un; 0: nobody is told */
    uint32_t spare;
    uint8_t notify[112];
};

#define WEIR_TAKEOVER_NAME_MAX 144

struct weir_takeover_listener {
    char protocol[8]; /* "resp", "http", "admin", "grpc" */
    uint32_t number;  /* of the listener: its sockets may come in several messages */
    uint8_t shared;   /* one socket for all loops */
    uint8_t passed;   /* by a service manager */
    uint8_t file;     /* it has a file that is its own to remove */
    uint8_t spare;
    uint64_t device, inode;
    int64_t made_s, made_ns;
    char configured[WEIR_TAKEOVER_NAME_MAX], bound[WEIR_TAKEOVER_NAME_MAX]; /* HOST:PORT, or unix:PATH */
};

struct weir_takeover_conn {
    char protocol[8];
    uint8_t loopback, has_token, known, wrong_tokens, served;
    uint8_t spare[3];
    uint32_t state_size; /* bytes of the protocol's state, which come first */
    uint32_t input_size; /* bytes that were read and are not yet understood, behind them */
    uint64_t idle_ns;    /* since its last request */
    uint8_t token[32];
};

/* A connection that has come: what is told of it, and its bytes. */
struct weir_takeover_taken {
    struct weir_takeover_taken *next;
    struct weir_takeover_conn told;
    int fd; /* -1: somebody has taken it */
    size_t got;
    uint8_t bytes[]; /* told.state_size, then told.input_size */
};

/* Closes its descriptor, unless that was taken. */
void weir_takeover_taken_free(struct weir_takeover_taken *taken);

struct weir_takeover_end {
    uint64_t connections;
};

struct weir_takeover_message {
    enum weir_takeover_kind kind;
    size_t size;
    size_t fds_count;
    int fds[WEIR_TAKEOVER_FDS_MAX]; /* who receives it owns them */
    uint8_t body[WEIR_TAKEOVER_BODY_MAX];
};

/* A socket that listens at `path`, mode 0600, in place of one that nobody listens at any more. WEIR_EEXIST: somebody
 * does; WEIR_ERANGE: the path is too long; WEIR_EIO. */
int weir_takeover_listen(const char *path, int *ret_fd, struct weir_fault *ret_fault);
/* WEIR_ENOENT: nobody listens there; WEIR_EHELD: it is somebody else's; WEIR_ERANGE, WEIR_EIO. */
int weir_takeover_connect(const char *path, int *ret_fd, struct weir_fault *ret_fault);
/* Whether the process at the other end runs as the user that this one runs as, or as root, and its number. */
bool weir_takeover_is_own(int fd, int32_t *ret_pid);

/* Waits until it has gone, for WEIR_TAKEOVER_SEND_MS at most. WEIR_EIO: the other process is gone, or does not read. */
int weir_takeover_send(int fd, enum weir_takeover_kind kind, const void *body, size_t size, const int *fds,
                       size_t fds_count);

/* The next message. WEIR_EAGAIN: none came within timeout_ms; WEIR_EIO: the other process is gone, and nothing that it
 * said is left; WEIR_EPROTO: it says what nobody says; WEIR_ELIMIT: this process may have no more descriptors. Then
 * *ret_message holds nothing. */
int weir_takeover_receive(int fd, int timeout_ms, struct weir_takeover_message *ret_message);

/* The same for a message of any kind that is told as a struct: false if it is not of this size. */
bool weir_takeover_body(const struct weir_takeover_message *message, void *ret_body, size_t size);

/* Closes the descriptors that nobody has taken: those that are not -1. */
void weir_takeover_drop(struct weir_takeover_message *message);
