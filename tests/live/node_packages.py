# SPDX-License-Identifier: Apache-2.0
"""What package-lock.json names, for the tests alone."""
import fcntl
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent


def install_node_packages():
    """Once; tests that run beside each other wait for the one that does."""
    installed, lock = HERE / 'node_modules/.package-lock.json', HERE / 'package-lock.json'
    with open(HERE / 'package.json', encoding='utf-8') as one_at_a_time:
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
            done = subprocess.run(['npm', 'ci', '--no-audit', '--no-fund'], cwd=HERE, capture_output=True, text=True, check=False, timeout=240)
            assert done.returncode == 0, done.stdout + done.stderr
