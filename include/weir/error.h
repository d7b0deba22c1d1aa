/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors: one list gives the number, the name and the text.
 *
 * Every fallible function of weir returns 0 or one of these negative values and, on failure, changes nothing: neither
 * its outputs (which are named ret_x) nor its object. Library code neither logs nor exits. */
#ifndef WEIR_ERROR_H
#define WEIR_ERROR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_ERROR_LIST(X)                                                                                             \
    X(EINVAL, 1, "invalid argument")                                                                                   \
    X(ERANGE, 2, "value out of range")                                                                                 \
    X(ENOMEM, 3, "out of memory")                                                                                      \
    X(ENOENT, 4, "no such limit")                                                                                      \
    X(EEXIST, 5, "already defined")                                                                                    \
    X(ELIMIT, 6, "a stated bound is reached")                                                                          \
    X(EAGAIN, 7, "more input is needed")                                                                               \
    X(EPROTO, 8, "malformed input")                                                                                    \
    X(EDUP, 9, "the same key twice in one request")                                                                    \
    X(EIO, 10, "input or output failed")                                                                               \
    X(EDOWN, 11, "the engine cannot be asked: nothing was charged")                                                    \
    X(EUNKNOWN, 12, "the engine was asked and did not answer: charged or not")                                         \
    X(ECORRUPT, 13, "a value that is not ours lies under our key")                                                     \
    X(EBUSY, 14, "others changed the same key first, again and again: nothing was charged")                            \
    X(EHELD, 15, "held by another")                                                                                    \
    X(ELOST, 16, "the lease has ended: it is not yours any more")                                                      \
    X(EFENCED, 17, "a later token is installed: you have been replaced")                                               \
    X(ENOTINSTALLED, 18, "this token is not installed: install it before the first read")                              \
    X(EBEHIND, 19, "no server shows yet what this session has seen")                                                   \
    X(ECUTOFF, 20, "a failover or a crash cut off what this session has seen")                                         \
    X(EFOREIGN, 21, "the session token is of another system")                                                          \
    X(EFORGED, 22, "the session token is not signed by one of our keys")                                               \
    X(ESTALE, 23, "the id is of a set of limits that has been replaced twice: take the newest")

enum weir_error {
    WEIR_OK = 0,
#define WEIR_ERROR_ENUM(name, number, text) WEIR_##name = -(number),
    WEIR_ERROR_LIST(WEIR_ERROR_ENUM)
#undef WEIR_ERROR_ENUM
};

/* Of a function whose answer must be looked at: who drops it goes on as if it had been yes. */
#if defined(__GNUC__)
#define WEIR_MUST_CHECK __attribute__((warn_unused_result))
#else
#define WEIR_MUST_CHECK
#endif

/* Words at the end of each struct that may grow (docs/abi.md). In what a program hands over they must be 0, as they are
 * where it zero-initialises: a later release gives them a meaning of which 0 is the default. Anything else is
 * WEIR_EINVAL, for it means what only a later weir would do. In what weir hands out they are 0. */
#define WEIR_RESERVED 4

/* What was wrong and where, for people: `field` names the argument at fault ("burst"), `text` says what it must be
 * ("must be 1 to 1000000000000"). Both are empty on success. Filled only where a function takes it; NULL is allowed. */
struct weir_fault {
    char field[32];
    char text[160];
};

#if defined(__GNUC__) && !defined(WEIR_CORE_BUILD)
#pragma GCC visibility push(default)
#endif

/* "WEIR_ERANGE" and "value out of range". For a number that is not an error: "WEIR_UNKNOWN", "unknown error". */
const char *weir_error_name(int error);
const char *weir_error_text(int error);

#if defined(__GNUC__) && !defined(WEIR_CORE_BUILD)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
