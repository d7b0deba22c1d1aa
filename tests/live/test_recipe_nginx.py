#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/nginx.md as it is printed, with a real nginx."""
import shutil
import unittest

import recipe_case

AROUND = '''worker_processes 1; daemon off; pid FOLDER/pid; error_log FOLDER/error.log warn; events { }
http { access_log off; client_body_temp_path FOLDER/b; proxy_temp_path FOLDER/p; fastcgi_temp_path FOLDER/f;
uwsgi_temp_path FOLDER/u; scgi_temp_path FOLDER/s;
PRINTED
}
'''


class Nginx(recipe_case.PermitsOfTheProxy, recipe_case.RecipeCase):
    page = 'nginx.md'

    def start_proxy(self):
        text = AROUND.replace('PRINTED', self.printed('nginx')).replace('FOLDER', str(self.folder))
        (self.folder / 'nginx.conf').write_text(text, encoding='utf-8')
        self.run_program(shutil.which('nginx') or '/usr/sbin/nginx', '-p', self.folder, '-e', self.folder / 'error.log',
                         '-c', self.folder / 'nginx.conf')

    def test_nothing_is_logged_of_refusals(self):
        self.use_up()
        self.get('/api/x', self.honest)
        self.assertEqual((self.folder / 'error.log').read_text(encoding='utf-8'), '')


if __name__ == '__main__':
    unittest.main()
