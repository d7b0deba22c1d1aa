#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/haproxy.md as it is printed, with a real HAProxy."""
import shutil
import unittest

import recipe_case


class Haproxy(recipe_case.PermitsOfTheProxy, recipe_case.Questions, recipe_case.RecipeCase):
    page = 'haproxy.md'

    def start_proxy(self):
        script = self.folder / 'weir.lua'
        script.write_text(self.printed('lua'), encoding='utf-8')
        text = self.printed('haproxy').replace('/etc/haproxy/weir.lua', str(script))
        (self.folder / 'haproxy.cfg').write_text(text, encoding='utf-8')
        self.run_program(shutil.which('haproxy') or '/usr/sbin/haproxy', '-db', '-f', self.folder / 'haproxy.cfg')


if __name__ == '__main__':
    unittest.main()
