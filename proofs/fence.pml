/* SPDX-License-Identifier: Apache-2.0
 *
 * A lock with leases, holders that pause wherever they like, and one resource that remembers the highest token it was
 * shown. Is an acknowledged update ever lost?
 *
 * A holder: acquire, install its token, read the counter, write counter + 1 with the token, release. Each line that is
 * not atomic can be the one at which it pauses: Spin tries every interleaving, so a pause needs no event of its own, and
 * a crash is a pause without end. A lease may end at any time at all.
 *
 *   (none)              install, then read: safe
 *   -DTEXTBOOK          read, then a write that is checked: the resource compares tokens only when it is written to
 *   -DINSTALL_LATE      read, then install, then write: the step is there, at the wrong place
 *   -DCRASH             the resource crashes and comes back with the mark that it had made durable: safe
 *   -DCRASH -DUNSYNCED  the same, but install was answered before the mark was durable
 *   -DRESTORE           the service comes back with an older store, knows it, and raises its incarnation: safe
 *   -DRESTORE -DNO_RAISE  the same, and it does not
 */
#ifndef HOLDERS
#define HOLDERS 3
#endif
#define NUMBERS 8 /* of an incarnation */

/* the service */
byte holder = 0; /* 0: free */
byte number = 0, incarnation = 0;

/* the resource */
byte mark = 0, value = 0;
byte mark_durable = 0;

/* what happened, for the claims */
byte acknowledged = 0;

inline acquire()
{
    atomic {
        holder == 0;
        number++;
        token = incarnation * NUMBERS + number;
        holder = _pid + 1;
        printf("holder %d acquires: token %d\n", _pid + 1, token);
    }
}

/* With what is compared in one atomic step. */
inline install()
{
    atomic {
        if
        :: token >= mark ->
            mark = token;
            printf("holder %d installs token %d\n", _pid + 1, token);
#ifndef UNSYNCED
            mark_durable = token;
#endif
        :: else -> goto fenced
        fi
    }
}

inline read()
{
    atomic {
        seen = value;
        printf("holder %d reads %d\n", _pid + 1, seen);
    }
}

inline write()
{
    atomic {
        if
#ifdef TEXTBOOK
        :: token >= mark ->
            mark = token;
            mark_durable = token;
#else
        :: token == mark ->
#endif
            value = seen + 1;
            acknowledged++;
            printf("holder %d writes %d with token %d: ok\n", _pid + 1, value, token);
            assert(value == acknowledged); /* no acknowledged update was lost */
        :: else -> goto fenced
        fi
    }
}

active [HOLDERS] proctype client()
{
    byte token, seen;

    acquire();
#if defined(TEXTBOOK)
    read();
#elif defined(INSTALL_LATE)
    read();
    install();
#else
    install();
    read();
#endif
    write();
fenced:
    atomic {
        if
        :: holder == _pid + 1 -> holder = 0
        :: else -> skip
        fi
    }
}

/* A lease ends. */
active proctype lease()
{
    do
    :: atomic { holder != 0 -> printf("the lease of holder %d ends\n", holder); holder = 0 }
    od
}

#ifdef UNSYNCED
/* The system writes the mark out when it likes. */
active proctype flush()
{
    do
    :: mark_durable = mark
    od
}
#endif

#ifdef CRASH
/* The value is durable with each write; the mark as far as it was synced. */
active proctype crash()
{
    atomic {
        mark = mark_durable;
        printf("the resource crashes, and its mark is %d\n", mark);
    }
}
#endif

#ifdef RESTORE
/* The store goes back to a time before the first grant; who held a lock is forgotten. */
active proctype restore()
{
    atomic {
        number = 0;
        holder = 0;
        printf("the service's store goes back\n");
#ifndef NO_RAISE
        incarnation++;
#endif
    }
}
#endif
