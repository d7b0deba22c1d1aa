/* SPDX-License-Identifier: Apache-2.0
 *
 * The resource is N = 3 replicas. A holder installs its token on F of them, reads R, writes what it read back to W under
 * its own token, and only then shows it and writes a value of its own to W. It may stop for ever between any two
 * messages, and the next holder may begin at any time: leases end.
 *
 *   (none)           F = R = W = 2: safe
 *   -DF=1            F + W = N: a write that an older holder begins after the install was done misses the fence
 *   -DR=1            R + W = N: a read misses the last acknowledged write
 *   -DNO_WRITE_BACK  what was read is shown at once: a value that only one replica had is seen, and then unseen
 *   -DPLAIN_READ     a read does not raise the mark at the replica it reads: R + W > N and F + W > N are kept, and an
 *                    older holder's write is still completed behind the back of the reader
 */
#define N 3
#ifndef F
#define F 2
#endif
#ifndef R
#define R 2
#endif
#ifndef W
#define W 2
#endif
#ifndef HOLDERS
#define HOLDERS 3
#endif
#define VERSION(token, sequence) ((token) * 4 + (sequence))

/* the replicas */
byte mark[N];
byte version[N]; /* of the value: by token, then by the holder's own sequence */
byte value[N];

/* what happened, for the claims */
byte granted = 0;               /* the last token */
byte installed = 0;             /* the highest token whose install is done */
byte acknowledged[HOLDERS + 1]; /* by token: the value of which its holder was told that it is written; 0: none */
byte shown[HOLDERS + 1];        /* by token: the value that its holder was shown, + 1; 0: none yet */

/* A replica that was not asked yet in this round. */
inline choose()
{
    if
    :: !(asked & 1) -> at = 0
    :: !(asked & 2) -> at = 1
    :: !(asked & 4) -> at = 2
    fi;
    asked = asked | (1 << at);
}

inline fence()
{
    if
    :: token >= mark[at] -> mark[at] = token
    :: else -> goto fenced
    fi
}

inline write(sequence, what)
{
    asked = 0;
    yes = 0;
    do
    :: yes < W ->
        atomic {
            choose();
            fence();
            if
            :: VERSION(token, sequence) > version[at] ->
                version[at] = VERSION(token, sequence);
                value[at] = what
            :: else -> skip
            fi;
            yes++
        }
    :: else -> break
    od
}

active [HOLDERS] proctype client()
{
    byte token, asked, yes, at, best, seen;
    bool late;

    atomic { granted == _pid -> granted++; token = granted }

    /* install */
    do
    :: yes < F -> atomic { choose(); fence(); yes++ }
    :: else -> break
    od;
    atomic { installed = (token > installed -> token : installed) };

    /* read: the value of the highest version */
    asked = 0;
    yes = 0;
    do
    :: yes < R ->
        atomic {
            choose();
#ifndef PLAIN_READ
            fence();
#endif
            if
            :: version[at] >= best -> best = version[at]; seen = value[at]
            :: else -> skip
            fi;
            yes++
        }
    :: else -> break
    od;

    atomic { asked = 0; yes = 0; at = 0; best = 0 };
#ifndef NO_WRITE_BACK
    write(1, seen);
#endif
    atomic {
        shown[token] = seen + 1;
        for (at : 1 .. HOLDERS) {
            if
            :: at < token ->
                assert(seen >= acknowledged[at]); /* no acknowledged update is missing */
                assert(seen + 1 >= shown[at])     /* and what was seen is not unseen */
            :: else -> skip
            fi
        }
    }

    late = installed > token;
    write(2, seen + 1);
    atomic {
        assert(!late); /* no write that began after a later install was done */
        acknowledged[token] = seen + 1;
        for (at : 1 .. HOLDERS) {
            if
            :: at > token && shown[at] > 0 ->
                assert(shown[at] - 1 >= seen + 1) /* a later holder would overwrite what it was not shown */
            :: else -> skip
            fi
        }
    }
fenced:
    skip
}
