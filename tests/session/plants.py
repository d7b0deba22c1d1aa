#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The library of sessions with a mistake in it, for the tests that must find it: faults_drive linked with a changed copy
of one or two sources, which take the place of those in the built archives. Nothing that is installed knows of them.

    plants.py BUILD PLANT PROGRAM"""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARCHIVES = ('sessions/libweir_session_engine.a', 'net/libweir_net_postgres.a', 'sessions/libweir_session_text.a',
            'sessions/libweir_session_signer.a', 'core/libweir_core.a', 'base/libweir_base.a')

PLACE, TOKEN, POSITION = (f'core/session/{name}.c' for name in ('place', 'token', 'position'))
READ, ASK = 'sessions/session_read.c', 'net/postgres_ask.c'

# Of each: the source, what stands in it once, and what is to stand there instead.
PLANTS = {
    # The four that the promise of this house names.
    'token-ignored': [(TOKEN, '    return foreign ? WEIR_PLACE_FOREIGN : worst;', '    return WEIR_PLACE_OK;')],
    'reads-unmoved': [(READ, '        pinned->used = true;', '        ;')],
    'timeline-uncompared': [(PLACE, '    if (from->timeline == to->timeline)\n        return weir',
                             '    if (to->timeline)\n        return to->timeline ? BRANCH_HOLDS : weir')],
    # A transaction of repeatable read is open, with its snapshot, while the servers are awaited and checked.
    'check-in-snapshot': [
        (READ, '    weir_call_begin(&call, session);\n',
         '    weir_call_begin(&call, session);\n    if (session->pins[WEIR_PINNED_REPLICA].link)\n'
         '        PQclear(PQexec(session->pins[WEIR_PINNED_REPLICA].link->conn,\n'
         '                       "SET idle_in_transaction_session_timeout = 300;"\n'
         '                       "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM t"));\n'),
        # Of no other read than the one that follows: what is left open stops the replay.
        (READ, '    weir_call_end(&call);\n',
         '    weir_call_end(&call);\n    struct weir_link *open = session->pins[WEIR_PINNED_REPLICA].link;\n'
         '    if (open && (error != 0 || ret_read->conn != open->conn))\n'
         '        PQclear(PQexec(open->conn, "ROLLBACK"));\n'),
        (READ, '#include "sessions/session_inside.h"\n',
         '#include <libpq-fe.h>\n#include "sessions/session_inside.h"\n'),
        (ASK, '    case PQTRANS_IDLE:\n', '    case PQTRANS_IDLE:\n    case PQTRANS_INTRANS:\n'),
        (ASK, '    case PQTRANS_ACTIVE:\n    case PQTRANS_INTRANS:\n', '    case PQTRANS_ACTIVE:\n')],
    # What PostgreSQL does that is easily overlooked.
    'no-half-position': [(PLACE, '        place.position |= WEIR_POSITION_NEXT;', '        ;')],
    'no-settling': [(READ, 'if (weir_shown_settle(pinned->link->conn, weir_call_timeout(call)) != 0)', 'if (0)')],
    'no-run': [(PLACE, '        place.run = shown->run;', '        ;')],
    'no-normal-position': [(POSITION, '    return insert - page <= header ? page : insert;',
                            '    return insert + 0 * header;')],
}


def changed(plant, folder):
    """The changed sources, under their names."""
    texts = {}
    for path, old, new in PLANTS[plant]:
        text = texts.get(path) or (ROOT / 'src' / path).read_text(encoding='utf-8')
        assert text.count(old) == 1, f'{plant}: {path} has changed: {old!r} stands there {text.count(old)} times'
        texts[path] = text.replace(old, new)
    for path, text in texts.items():
        made = folder / pathlib.Path(path).name
        made.write_text(text, encoding='utf-8')
        yield made


def build(plant, build_folder, program):
    """Links the driver with it."""
    drivers = sorted((build_folder / 'tests/session/faults_drive.p').glob('*.o'))
    libpq = subprocess.run(['pkg-config', '--cflags', '--libs', 'libpq', 'libcrypto'], stdout=subprocess.PIPE,
                           encoding='utf-8', check=True).stdout.split()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(['cc', '-std=c11', '-D_GNU_SOURCE', '-O1', '-w', f'-I{ROOT}/include', f'-I{ROOT}/src',
                        *changed(plant, pathlib.Path(folder)), *drivers, '-Wl,--start-group',
                        *(build_folder / 'src' / name for name in ARCHIVES), '-Wl,--end-group', *libpq, '-pthread',
                        '-o', program], check=True)
    return program


if __name__ == '__main__':
    build(sys.argv[2], pathlib.Path(sys.argv[1]).resolve(), sys.argv[3])
