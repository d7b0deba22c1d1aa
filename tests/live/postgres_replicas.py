# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL primary and its streaming standbys, also standbys of standbys, with the faults that a reader of replicas
must live through. Each method returns when what it does has taken effect.

    with Replicas(2) as group:
        group.primary.execute('CREATE TABLE t (k int PRIMARY KEY, v int)')
        one, two = group.standbys
        one.pause()
        group.promote_lossily(two, lambda: group.primary.execute('INSERT INTO t VALUES (1, 1)'))

Positions in the log are integers here. Segments are of 1 MiB, so that tests cross their ends too."""
import concurrent.futures
import contextlib
import os
import re
import shutil
import signal
import subprocess
import time

from postgres_server import Postgres, fresh, run
from redis_server import wait_for

SEGMENT_BYTES = 1 << 20
INITDB = ('--wal-segsize', SEGMENT_BYTES >> 20)
PAGE_BYTES = 8192
SEGMENT_HEADER_BYTES = 40
PAGE_HEADER_BYTES = 24
DEAD_PORT = 1  # nobody listens there on loopback, and nobody without rights can
NUDGE_ATTEMPTS = 64
# What writes to the log by itself is off or rare: a test says what is written, and how far its replicas are.
SETTINGS = {
    'max_wal_senders': 20, 'wal_keep_size': '512MB', 'max_wal_size': '1GB', 'hot_standby': 'on',
    'hot_standby_feedback': 'off', 'recovery_target_timeline': 'latest', 'wal_retrieve_retry_interval': '100ms',
    'wal_receiver_status_interval': '1s', 'wal_receiver_timeout': '5s', 'wal_sender_timeout': '5s',
    'max_connections': 100,  # initdb's: a standby with fewer does not start upon its files
    'wal_writer_delay': '10ms', 'checkpoint_timeout': '1h', 'autovacuum': 'off', 'shared_buffers': '8MB',
}


def follow(data):
    """The server of these files begins as a standby, next time."""
    (data / 'standby.signal').touch()
    if os.geteuid() == 0:
        shutil.chown(data / 'standby.signal', 'postgres', 'postgres')


class Server(Postgres):
    """A primary or a standby. `name` is its application_name when it follows another."""

    def __init__(self, name, data=None, upstream=None, **settings):
        self.name, self.upstream, self.connection = name, None, None
        if data is None:
            data = fresh(*INITDB).with_name(f'{name}-{time.monotonic_ns()}')
            subprocess.run(['cp', '-a', str(fresh(*INITDB)), str(data)], check=True)
        (data / 'postgresql.auto.conf').write_text('', encoding='utf-8')
        if upstream:
            self.upstream = upstream
            follow(data)
            settings = {'primary_conninfo': f'{upstream.conninfo()} application_name={name}', **settings}
        super().__init__(data=data, **{**SETTINGS, **settings})

    def __repr__(self):
        return f'<{self.name} at {self.port}>'

    # ---- asking ----

    def execute(self, text, *values):
        """The rows, of the last statement. One session for all calls, in autocommit."""
        if self.connection is None or self.connection.closed:
            self.connection = self.connect()
        with self.connection.cursor() as cursor:
            cursor.execute(text, values or None)
            return cursor.fetchall() if cursor.description else []

    def value(self, text, *values):
        return self.execute(text, *values)[0][0]

    def position(self, text):
        """pg_current_wal_insert_lsn(), say, as bytes since the beginning; None for NULL."""
        found = self.value(f"SELECT ({text} - '0/0')::text")
        return None if found is None else int(found)

    def insert_position(self):
        """Where the next record begins: after a page's header, if that is where it will be."""
        return self.position('pg_current_wal_insert_lsn()')

    def end(self):
        """Where the last record ended, be it flushed or not: on the boundary, where insert_position() is past it."""
        at = self.insert_position()
        if at % SEGMENT_BYTES == SEGMENT_HEADER_BYTES:
            return at - SEGMENT_HEADER_BYTES
        return at - PAGE_HEADER_BYTES if at % PAGE_BYTES == PAGE_HEADER_BYTES else at

    def replayed(self):
        return self.position('pg_last_wal_replay_lsn()')

    def received(self):
        return self.position('pg_last_wal_receive_lsn()')

    def last_checkpoint(self):
        """Of a server that is shut: where its last record begins."""
        found = re.search(r'Latest checkpoint location: +(\w+)/(\w+)', run('pg_controldata', '-D', self.data))
        return int(found[1], 16) << 32 | int(found[2], 16)

    def timeline(self):
        """Of what it writes or replays now."""
        if self.value('SELECT pg_is_in_recovery()'):
            return self.value('SELECT received_tli FROM pg_stat_wal_receiver UNION ALL '
                              'SELECT timeline_id FROM pg_control_checkpoint() LIMIT 1')
        return int(self.value('SELECT pg_walfile_name(pg_current_wal_lsn())')[:8], 16)

    # ---- settings ----

    def write_settings(self, **settings):
        """For the next start or reload. They outrank those given when it was made; None takes one back."""
        path = self.data / 'postgresql.auto.conf'
        kept = [line for line in path.read_text(encoding='utf-8').splitlines(True)
                if line.split(' ')[0] not in settings]
        quoted = {name: str(value).replace("'", "''") for name, value in settings.items() if value is not None}
        path.write_text(''.join(kept) + ''.join(f"{name} = '{value}'\n" for name, value in quoted.items()),
                        encoding='utf-8')

    def configure(self, **settings):
        """Those that need no restart. A session that is new sees when the postmaster has read them, and then it has told
        its children."""
        self.write_settings(**settings)
        loaded = self.sql('SELECT pg_conf_load_time()')
        self.process.send_signal(signal.SIGHUP)
        wait_for(lambda: self.sql('SELECT pg_conf_load_time()') != loaded, 'it does not reload')

    def set_delay(self, milliseconds):
        """What is replayed from now on is replayed so long after it was committed."""
        self.configure(recovery_min_apply_delay=f'{milliseconds}ms')

    def synchronous(self, commit='on', standbys=''):
        """Whom a commit waits for: synchronous('remote_apply', 'ANY 1 (one, two)'), synchronous('off')."""
        self.configure(synchronous_commit=commit, synchronous_standby_names=standbys)
        # A commit does not wait until the checkpointer has said that there is whom to wait for.
        self.execute('CHECKPOINT')
        wait_for(lambda: not any(state == 'async' and name in standbys for name, state in self.execute(
            'SELECT application_name, sync_state FROM pg_stat_replication')) or not standbys,
                 'its standbys do not become synchronous')

    # ---- replay and stream ----

    def pause(self):
        """What waits for its delay is not replayed either, though PostgreSQL calls it requested only."""
        self.execute('SELECT pg_wal_replay_pause()')
        wait_for(lambda: self.value("SELECT pg_get_wal_replay_pause_state() = 'paused' OR EXISTS (SELECT FROM "
                                    "pg_stat_activity WHERE wait_event = 'RecoveryApplyDelay')"), 'it does not pause')

    def resume(self):
        self.execute('SELECT pg_wal_replay_resume()')
        wait_for(lambda: self.value('SELECT pg_get_wal_replay_pause_state()') == 'not paused', 'it does not resume')

    def cut(self):
        """Off its upstream. What it has received it replays."""
        self.configure(primary_conninfo=f'host=127.0.0.1 port={DEAD_PORT} user=postgres')
        # While replay is paused nobody would end the receiver for a new setting.
        for pid, in self.execute('SELECT pid FROM pg_stat_wal_receiver'):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        wait_for(lambda: not self.value('SELECT count(*) FROM pg_stat_wal_receiver'), 'it is not cut off')

    def streams(self):
        return self.upstream is not None and self.value(
            "SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming' AND sender_port = %s",
            self.upstream.port) == 1

    def attach(self, upstream=None, wait=True):
        """To another one, or to its own after a cut. Without `wait`: one that has what its upstream lacks never streams
        from it. One that is paused streams when it is resumed."""
        self.upstream = upstream or self.upstream
        self.configure(primary_conninfo=f'{self.upstream.conninfo()} application_name={self.name}')
        if wait and self.value('SELECT pg_get_wal_replay_pause_state()') == 'not paused':
            wait_for(self.streams, f'{self} does not follow {self.upstream}: {self.log()[-500:]}')

    def wait_replayed(self, position, seconds=60):
        wait_for(lambda: (self.replayed() or 0) >= position, f'{self} does not catch up', seconds)

    def wait_settled(self):
        """When it is cut off: it has replayed what it had received, down to the last whole record."""
        seen = []

        def stands():
            seen.append(self.replayed())
            return seen[-1] == self.received() or len(seen) > 10 and len(set(seen[-10:])) == 1

        wait_for(stands, f'{self} still replays')

    # ---- faults ----

    def forget_connection(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def kill(self):
        self.forget_connection()
        super().kill()

    def shut(self):
        self.forget_connection()
        self.thaw()
        super().shut()

    def promote(self):
        super().promote()
        self.upstream = None

    def still(self):
        """The one process that writes to the log of an idle primary by itself stands, until thaw() or the end."""
        pid = self.value("SELECT pid FROM pg_stat_activity WHERE backend_type = 'background writer'")
        os.kill(pid, signal.SIGSTOP)

    def stop(self):
        with contextlib.suppress(Exception):
            self.forget_connection()
        super().stop()

    # ---- an idle primary, on a boundary ----

    def pad(self, size):
        """One record of `size` bytes, a multiple of 8; the smallest has 64."""
        # The record's header (24), its main data's header (2 or 5), xl_logical_message (24), an empty prefix and its
        # end (1).
        length = size - 24 - 24 - 1
        self.execute("SELECT pg_logical_emit_message(false, '', repeat('x', %s))",
                     length - (2 if length + 25 - 2 <= 255 else 5))

    def to_page_boundary(self):
        """The last record ends where a page does, and so does what is flushed; the next would begin behind a header.
        It stays so until somebody writes."""
        self.still()
        for _ in range(NUDGE_ATTEMPTS):
            at = self.insert_position()
            if at % PAGE_BYTES == PAGE_HEADER_BYTES and at % SEGMENT_BYTES > PAGE_BYTES:
                break
            left = PAGE_BYTES - at % PAGE_BYTES
            self.pad(left if left >= 64 else left + 64)
        else:
            raise AssertionError(f'no page boundary: {at:#x}')
        self.wait_flushed()

    def to_segment_boundary(self):
        """The same, at the end of a segment."""
        self.still()
        self.execute('SELECT pg_switch_wal()')
        at = self.insert_position()
        assert at % SEGMENT_BYTES == SEGMENT_HEADER_BYTES, f'no segment boundary: {at:#x}'
        self.wait_flushed()

    def wait_flushed(self):
        wait_for(lambda: self.position('pg_current_wal_flush_lsn()') >= self.end(), 'it does not flush')


class Replicas:
    """`primary`, `standbys`, and `retired`: those that were primaries, killed or shut. A context manager."""

    def __init__(self, standbys=2, **settings):
        self.settings, self.made = settings, standbys
        self.standbys, self.retired = [], []
        self.primary = Server('primary', **settings)
        try:
            # All of them begin with the same files, and the primary has all of its log: there is nothing to back up.
            with concurrent.futures.ThreadPoolExecutor() as pool:
                self.standbys = list(pool.map(self.copy, range(1, standbys + 1)))
            if standbys:
                self.wait_streaming()
        except BaseException:
            self.stop()
            raise

    def copy(self, number):
        return Server(f'standby{number}', upstream=self.primary, **self.settings)

    def all(self):
        return [self.primary, *self.standbys, *self.retired]

    def stop(self):
        for server in self.all():
            server.stop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def wait_caught_up(self, *standbys, seconds=60):
        """Those, or all, have replayed everything that the primary has written up to now, in open transactions too:
        of those some may be in memory only, which a commit flushes."""
        end = self.primary.end()
        for standby in standbys or self.standbys:
            standby.wait_replayed(end, seconds)

    def wait_streaming(self, *standbys):
        """After a primary came back, say."""
        for standby in standbys or self.standbys:
            wait_for(standby.streams, f'{standby} does not stream: {standby.log()[-500:]}')

    # ---- members ----

    def add(self, upstream=None):
        """A standby from a backup of the primary, following it or another standby."""
        self.made += 1
        standby = Server(f'standby{self.made}', data=self.primary.backup(), upstream=upstream or self.primary,
                         **self.settings)
        self.standbys.append(standby)
        self.wait_streaming(standby)
        return standby

    def remove(self, standby):
        """With its files. Those that follow it are left with nobody."""
        self.standbys.remove(standby)
        standby.stop()

    # ---- failovers ----

    def promote_cleanly(self, standby):
        """Nothing is lost: the primary is shut, which sends all to those that stream; whoever is promoted replays what it
        has received, be it delayed or paused."""
        wait_for(standby.streams, f'{standby} would not get all')
        self.primary.shut()
        last = self.primary.last_checkpoint()
        wait_for(lambda: standby.received() > last, f'{standby} has not received the last checkpoint')
        self.succeed(standby)

    def promote_lossily(self, standby, lost, ahead=()):
        """All standbys are cut off, `lost()` is called, the primary is killed, and the standby promoted. Those in `ahead`
        stay attached: they have replayed what is lost, and never stream from the new primary. While `lost()` runs, the
        standby shows exactly what survives, unless its replay is paused or delayed."""
        for other in self.standbys:
            # Itself last: who has more than it could not follow it.
            if other is not standby and other not in ahead and other.upstream is self.primary:
                other.cut()
        standby.cut()
        standby.wait_settled()
        lost()
        if ahead:
            self.wait_caught_up(*ahead)
        self.primary.kill()
        self.succeed(standby, ahead)

    def succeed(self, standby, ahead=()):
        old, self.primary = self.primary, standby
        self.standbys.remove(standby)
        self.retired.append(old)
        standby.promote()
        for other in self.standbys:
            if other.upstream is old:
                other.attach(standby, wait=other not in ahead)

    def revive(self, old):
        """A primary that was retired, as it was: it takes writes at its port, and nobody follows it."""
        old.start()
        return old

    def rejoin(self, old):
        """A primary that was shut, and lost nothing, as a standby of the present one."""
        self.retired.remove(old)
        follow(old.data)
        old.upstream = self.primary
        old.write_settings(primary_conninfo=f'{self.primary.conninfo()} application_name={old.name}')
        old.start()
        self.standbys.append(old)
        self.wait_streaming(old)

    # ---- conflicts ----

    def conflict(self, standby, table):
        """Rows of the table that a transaction at the standby may see are removed there, and it is cancelled."""
        standby.configure(max_standby_streaming_delay='0')
        column = self.primary.value('SELECT quote_ident(attname) FROM pg_attribute '
                                    'WHERE attrelid = %s::regclass AND attnum = 1', table)
        # Every row anew, under its lock: nobody's write is undone, and no value changes.
        self.primary.execute(f'UPDATE {table} SET {column} = {column}')
        self.primary.execute(f'VACUUM {table}')
        self.wait_caught_up(standby)
