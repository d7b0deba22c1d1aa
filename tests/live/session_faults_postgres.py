# SPDX-License-Identifier: Apache-2.0
"""What happens to the servers in a run of session_faults.py. States last while the run does something else; events come
and go. Each tells the run what it has to expect: run.cut(since) where something may have been lost."""
import contextlib
import os
import signal

import psycopg2
from redis_server import wait_for

STANDBYS_MAX = 4


def heirs(run):
    """Who may be promoted, or taken away: nothing else happens to it, and it follows the primary."""
    group = run.group
    return [standby for standby in group.standbys if standby.upstream is group.primary and standby not in run.touched]


@contextlib.contextmanager
def touched(run):
    """One of the standbys, which other faults leave alone; None: there is no other left."""
    free = [standby for standby in run.group.standbys if standby not in run.touched]
    standby = run.choose.choice(free) if len(free) > 1 else None
    run.touched.append(standby)
    try:
        yield standby
    finally:
        run.touched.remove(standby)


# ---- states ----

@contextlib.contextmanager
def paused(run):
    with touched(run) as standby:
        if standby:
            standby.pause()
        yield
        if standby in run.group.standbys:
            standby.resume()


@contextlib.contextmanager
def delayed(run):
    with touched(run) as standby:
        if standby:
            standby.set_delay(run.choose.choice((30, 100, 400)))
        yield
        if standby in run.group.standbys:
            standby.set_delay(0)


@contextlib.contextmanager
def all_delayed(run):
    """Reads have to wait, or go to the primary."""
    standbys = list(run.group.standbys)
    for standby in standbys:
        standby.set_delay(run.choose.choice((20, 60, 120)))
    yield
    for standby in standbys:
        if standby in run.group.standbys:
            standby.set_delay(0)


@contextlib.contextmanager
def cut_off(run):
    with touched(run) as standby:
        if standby:
            standby.cut()
        yield
        if standby in run.group.standbys:
            standby.attach()


@contextlib.contextmanager
def synchronous(run):
    """Commits wait for a standby that is gone: others show them, and the primary does not."""
    primary, mode = run.group.primary, run.choose.choice(('on', 'remote_apply'))
    with touched(run) as standby:
        if standby:
            primary.synchronous(mode, f'FIRST 1 ({standby.name})')
            standby.cut()
        yield
        if standby in run.group.standbys:
            standby.attach()
    if run.choose.random() < 0.5 and primary is run.group.primary:
        run.sleep(0, 0.2)


@contextlib.contextmanager
def calm(_run):
    yield


STATES = {state.__name__: state for state in (calm, paused, delayed, all_delayed, cut_off, synchronous)}


# ---- what comes and goes ----

def nothing(run):
    run.sleep(0.2, 0.8)


def promotion(run):
    """Without loss. The old primary comes back as a standby."""
    if heirs(run):
        old, standby = run.group.primary, run.choose.choice(heirs(run))
        run.group.wait_streaming(standby)
        run.group.promote_cleanly(standby)
        run.sleep(0, 0.4)
        run.group.rejoin(old)


def leaves(run, standbys):
    """Those that nobody follows."""
    return [standby for standby in standbys if all(other.upstream is not standby for other in run.group.standbys)]


def retire(run, server):
    """It is down for good. Some forget to say so."""
    if server in run.group.retired:
        run.group.retired.remove(server)
        server.stop()
    else:
        run.group.remove(server)
    if run.choose.random() < 0.7:
        run.tell(f'remove {server.name}')


def loss(run):
    """A standby is promoted that has not got all; the old primary is dead, or comes back and takes writes."""
    group, since_ns = run.group, run.now_ns()
    if not heirs(run):
        return
    standby, *others = run.choose.sample(heirs(run), min(2, len(heirs(run))))
    ahead, old = leaves(run, others) if run.choose.random() < 0.4 else [], group.primary
    group.promote_lossily(standby, lambda: run.sleep(0.1, 0.5), ahead)
    run.sleep(0, 0.3)
    if run.choose.random() < 0.5:
        group.revive(old)
        run.sleep(0.2, 0.6)
        old.kill()
    for server in (old, *ahead):
        retire(run, server)
    run.cut(since_ns)
    run.grow()


def zombie(run):
    """A standby is promoted while the primary goes on, and perhaps another standby follows that."""
    group, since_ns = run.group, run.now_ns()
    if not heirs(run):
        return
    standby, *others = run.choose.sample(heirs(run), min(2, len(heirs(run))))
    astray, old = leaves(run, others) if run.choose.random() < 0.5 else [], group.primary
    for other in group.standbys:
        if other.upstream is old and other is not standby and other not in astray:
            other.cut()
    standby.cut()
    standby.wait_settled()
    run.sleep(0, 0.2)
    for other in astray:
        other.upstream = None  # it is not told to follow the new one
    group.succeed(standby)
    run.sleep(0.2, 0.8)
    old.kill()
    for server in (old, *astray):
        retire(run, server)
    run.cut(since_ns)
    run.grow()


def unflushed(run):
    """What the primary answers is not on disk yet."""
    run.group.primary.configure(synchronous_commit='off', wal_writer_delay='1s')
    run.sleep(0.2, 0.5)


def crash(run):
    """All its processes; what was only in memory is lost, and its place in the log is given out again."""
    primary = run.group.primary
    if run.choose.random() < 0.8:
        unflushed(run)
    since_ns = run.now_ns()
    primary.kill()
    run.sleep(0, 0.3)
    primary.start()
    run.cut(since_ns)
    primary.configure(synchronous_commit=None, wal_writer_delay=None)


def backend_crash(run):
    """One of its processes, and PostgreSQL begins anew by itself."""
    primary = run.group.primary
    if run.choose.random() < 0.8:
        unflushed(run)
    reset = 'SELECT pg_stat_get_bgwriter_stat_reset_time()'
    before, since_ns = primary.value(reset), run.now_ns()
    os.kill(primary.value("SELECT min(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND "
                          "pid <> pg_backend_pid()"), signal.SIGKILL)
    primary.forget_connection()

    def is_back():
        try:
            return primary.value(reset) != before
        except psycopg2.Error:
            primary.forget_connection()
            return False

    wait_for(is_back, 'it does not come back')
    run.cut(since_ns)
    primary.configure(synchronous_commit=None, wal_writer_delay=None)


def restart(run):
    """A standby, while sessions wait for it; without mercy or in order."""
    standby = run.choose.choice(run.group.standbys)
    if standby not in run.touched and run.choose.random() < 0.5:
        standby.pause()
        run.sleep(0.1, 0.3)
    run.choose.choice((standby.kill, standby.shut))()
    run.sleep(0, 0.5)
    standby.start()


def freeze(run):
    """Nobody hears that it is stopped."""
    server = run.choose.choice([run.group.primary, *run.group.standbys])
    server.freeze()
    run.sleep(0.2, 1.5)
    server.thaw()


def conflict(run):
    """Reads at a standby are cancelled by what it replays."""
    if heirs(run) and run.state is not synchronous:
        standby = run.choose.choice(heirs(run))
        for _ in range(3):
            run.group.conflict(standby, 't')
            run.sleep(0, 0.1)
        standby.configure(max_standby_streaming_delay=None)


def boundary(run):
    """Nobody writes, and the log ends where a page or a segment does."""
    primary = run.group.primary
    if run.state is not calm:
        return
    run.tell('calm')
    run.group.wait_caught_up()
    run.sleep(0.2, 0.3)
    run.choose.choice((primary.to_page_boundary, primary.to_segment_boundary))()
    run.group.wait_caught_up()
    since_ns = run.now_ns()
    run.sleep(0.6, 0.8)

    def read_elsewhere():
        """Enough for the judge, also with those under way now."""
        reads, leader = run.reads_since(since_ns)
        return reads >= 30 and leader * 4 < reads

    wait_for(read_elsewhere, 'while the primary was idle its standbys were not read')
    run.calms.append((since_ns, run.now_ns()))
    primary.thaw()
    run.tell('busy')


def forgery(run):
    """A thousand tokens that are not what they seem."""
    run.tell('forge 1000', drivers=run.drivers[:1])


def newcomer(run):
    run.grow(at_least=STANDBYS_MAX)


def farewell(run):
    """A standby goes, and those that follow it go elsewhere."""
    group, free = run.group, heirs(run)
    if len(free) < 2:
        return
    standby = run.choose.choice(free)
    told = run.choose.random() < 0.5
    if told:
        run.tell(f'remove {standby.name}')
    group.remove(standby)
    for other in group.standbys:
        if other.upstream is standby:
            other.attach(group.primary)
    if not told:
        run.sleep(0, 0.3)
        run.tell(f'remove {standby.name}')
    run.grow()


EVENTS = {event.__name__: event for event in (
    nothing, promotion, loss, zombie, crash, backend_crash, restart, freeze, conflict, boundary, forgery, newcomer,
    farewell)}
FAILOVERS = {'promotion', 'loss', 'zombie', 'crash', 'backend_crash'}


def heal(run):
    """As it was at first, but for who is the primary."""
    group = run.group
    group.primary.configure(synchronous_commit=None, synchronous_standby_names=None, wal_writer_delay=None)
    for standby in group.standbys:
        if standby.value('SELECT pg_get_wal_replay_pause_state()') != 'not paused':
            standby.resume()
    group.wait_streaming()
    group.wait_caught_up()
