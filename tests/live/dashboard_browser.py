# SPDX-License-Identifier: Apache-2.0
"""Chromium visits a page and a script of the test's uses it, as people do: playwright-core drives it, axe-core looks for what
keeps people out."""
import json
import pathlib
import shutil
import subprocess

from node_packages import install_node_packages
from test_web_page import BROWSER_TIMEOUT_S, FLAGS

HERE = pathlib.Path(__file__).resolve().parent
HELPERS = '''
const text_of = selector => page.locator(selector).innerText();
const shown = (selector, what) => page.locator(selector).filter({hasText: what}).first().waitFor();
'''


def visit(url, script, args=None, width=1280, height=900, dark=False, flags=()):
    """(what the script returns, what the browser complained of)"""
    install_node_packages()
    asked = {'url': url, 'script': HELPERS + script, 'args': args, 'width': width, 'height': height, 'dark': dark,
             'flags': [*(flag for flag in FLAGS if flag != '--headless'), *flags],
             'executable': shutil.which('chromium') or 'chromium'}
    done = subprocess.run(['node', 'dashboard_browser.mjs'], input=json.dumps(asked), capture_output=True, text=True, check=False,
                          cwd=HERE, timeout=BROWSER_TIMEOUT_S)
    assert done.returncode == 0, done.stderr + done.stdout
    answer = json.loads(done.stdout)
    return answer['result'], answer['said']
