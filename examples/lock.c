/* SPDX-License-Identifier: Apache-2.0
 *
 * Work under a lock of a weir server: acquire, work while it is still ours, give it back.
 *
 *     cc lock.c $(pkg-config --cflags --libs weir) -o lock && ./lock 127.0.0.1:6380 nightly-report
 *
 * What the work writes to must know the token and refuse older ones (weir/fence.h): this program may be stopped between
 * asking "still mine?" and writing. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <weir/error.h>
#include <weir/lock.h>

/* One step of the work, with the token in hand for whatever it writes to. */
static void step(struct weir_token token)
{
    (void)token;
}

static int work(struct weir_lock *lock)
{
    struct weir_token token = weir_lock_token(lock);
    int steps = 0;
    printf("granted: %" PRIu64 ".%" PRIu64 "\n", token.incarnation, token.number);
    /* Here: install the token at what is written to, before anything is read from it. */
    for (; steps < 3 && weir_lock_mine(lock); steps++) {
        step(token);
        weir_lock_advance(lock);
    }
    int error = weir_lock_renew(lock); /* by hand, once; `renew` has a thread do it at a third of the lease */
    if (error == 0)
        printf("mine for %d steps\n", steps);
    return error;
}

int main(int argc, char **argv)
{
    struct weir_locks *locks;
    struct weir_lock *lock;
    struct weir_fault fault;
    const char *name = argc > 2 ? argv[2] : "example";
    const struct weir_locks_options server = { .address = argc > 1 ? argv[1] : NULL };
    const struct weir_lock_options options = { .ttl_ms = 15000, .wait_ms = 60000, .renew = true };

    if (weir_locks_connect(&server, &locks, &fault) != 0) {
        printf("cannot connect: %s %s\n", fault.field, fault.text);
        return 1;
    }
    int error = weir_lock_acquire(locks, name, strlen(name), &options, &lock);
    if (error != 0) {
        weir_locks_fault(locks, &fault);
        printf("not granted: %s (%s)\n", weir_error_text(error), fault.text);
        weir_locks_disconnect(locks);
        return 1;
    }
    error = work(lock);
    int released = weir_lock_release(lock);
    printf("%s%s\n",
           error      ? "lost: "
           : released ? "not released: "
                      : "released",
           error      ? weir_error_text(error)
           : released ? weir_error_text(released)
                      : "");
    weir_locks_disconnect(locks);
    return 0;
}
