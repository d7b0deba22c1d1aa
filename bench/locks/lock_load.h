/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients that each acquire and release a lock of their own as fast as they can; lock_load.c runs them. */
#pragma once

#include <stdbool.h>

/* One client's connection, made and used by one thread. A failure is said on stderr. */
struct lock_client *lock_client_open(const char *address, unsigned number);
bool lock_client_acquire(struct lock_client *client);
bool lock_client_release(struct lock_client *client);
void lock_client_close(struct lock_client *client);
