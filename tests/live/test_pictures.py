#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make pictures` takes the pictures that the documentation shows: each of them, and no page shows one that it does not take."""
import os
import pathlib
import re
import struct
import subprocess
import tempfile
import unittest

from weir_server import BUILD, ROOT

SCRIPT = ROOT / 'scripts/pictures'
SIZE = (360, 1100)


class Pictures(unittest.TestCase):
    def test_one_is_taken_anew(self):
        if not (BUILD / 'play/play.wasm').exists():
            self.skipTest('built without WebAssembly')
        with tempfile.TemporaryDirectory(prefix='weir-live-') as folder:
            done = subprocess.run([SCRIPT, '--build', BUILD, '--folder', folder, '--only', 'learn-phone'], env=dict(os.environ, TMPDIR=folder),
                                  capture_output=True, text=True, check=False, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            data = pathlib.Path(folder, 'learn-phone.png').read_bytes()
            self.assertEqual(struct.unpack('>4sII', data[12:24]), (b'IHDR', *SIZE))
            self.assertGreater(len(data), 10000, 'it is empty')
            self.assertEqual([path.name for path in pathlib.Path(folder).iterdir()], ['learn-phone.png'], 'it leaves something behind')

    def test_every_one_that_is_shown_is_taken(self):
        taken = set(re.findall(r"^    '([\w-]+)': \(", SCRIPT.read_text(encoding='utf-8'), re.M))
        self.assertEqual({path.stem for path in (ROOT / 'docs/img').glob('*.png')}, taken)
        shown = {name for page in (ROOT / 'docs').glob('*.md') for name in re.findall(r'\(img/([\w-]+)\.png\)', page.read_text(encoding='utf-8'))}
        self.assertEqual(shown, taken)


if __name__ == '__main__':
    unittest.main()
